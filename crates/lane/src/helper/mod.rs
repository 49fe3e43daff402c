//! Threads beside the lanes of a silo for calls that block and that io_uring lacks or runs badly: directory
//! listings, attribute look-ups by name, page-cache fills. They run on the silo's CPUs, so pages they touch
//! first are on its node. What clients cause waits by client (`lane::offload`).

pub(crate) mod account;
pub(crate) mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use self::queue::{FairQueue, Party};

/// Call to run on a helper thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Helper threads of one silo, which end after the queued jobs when the last handle is dropped.
#[derive(Clone)]
pub struct HelperPool {
    inner: Arc<HelperInner>,
}

impl HelperPool {
    /// Starts `threads` threads allowed on `cpus` (all when empty), with at most `queue_max` waiting jobs. With
    /// `local_memory` a policy that the process inherited does not scatter what they allocate.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        name: &str,
        cpus: &[u32],
        threads: usize,
        local_memory: bool,
        queue_max: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(HelperShared {
            state: Mutex::new(HelperState { jobs: FairQueue::new(threads, queue_max), closed: false }),
            wake: Condvar::new(),
        });
        let mut handles = Vec::with_capacity(threads);
        for index in 0..threads {
            let shared = Arc::clone(&shared);
            let cpus = cpus.to_vec();
            let handle = std::thread::Builder::new().name(format!("{name}-{index}")).spawn(move || {
                // Unpinned helpers still work; they only lose locality.
                let _ = crate::affinity::pin_to(&cpus);
                if local_memory {
                    let _ = crate::memory::allocate_where_running();
                }
                shared.work();
            })?;
            handles.push(handle);
        }
        Ok(Self { inner: Arc::new(HelperInner { cpus: cpus.to_vec(), shared, threads: handles }) })
    }

    /// Returns the silo's CPUs, on which its threads are allowed. Empty when they may run anywhere.
    pub(crate) fn cpus(&self) -> &[u32] {
        &self.inner.cpus
    }

    /// Queues a job of a client, or of the lane itself, and for a file system, if it waits for one. Gives the
    /// job back when the queue is full and no other client has more in it, or the file system has its part.
    pub(crate) fn submit(&self, party: impl Into<Party>, job: Job) -> Result<(), Job> {
        let shared = &self.inner.shared;
        let mut state = shared.state.lock().expect("no helper panics while it holds the lock");
        let gave_way = state.jobs.push(party, job)?;
        drop(state);
        shared.wake.notify_one();
        // The submitter learns by its end; that may be anything, so nothing is held.
        drop(gave_way);
        Ok(())
    }
}

struct HelperInner {
    cpus: Vec<u32>,
    shared: Arc<HelperShared>,
    threads: Vec<JoinHandle<()>>,
}

struct HelperShared {
    state: Mutex<HelperState>,
    wake: Condvar,
}

struct HelperState {
    jobs: FairQueue<Job>,
    closed: bool,
}

impl HelperShared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock().expect("no helper panics while it holds the lock");
            let (party, job) = loop {
                if let Some(next) = state.jobs.pop() {
                    break next;
                }
                if state.closed && state.jobs.is_empty() {
                    return;
                }
                state = self.wake.wait(state).expect("no helper panics while it holds the lock");
            };
            drop(state);
            // A panicking job must not take the thread along; its submitter sees a dropped reply.
            let _ = catch_unwind(AssertUnwindSafe(job));
            let mut state = self.state.lock().expect("no helper panics while it holds the lock");
            state.jobs.done(party);
            let (closed, has_more) = (state.closed, !state.jobs.is_empty());
            drop(state);
            if closed {
                // The others may wait for what this client had under way.
                self.wake.notify_all();
            } else if has_more {
                // What was kept from running by this job may run on another thread.
                self.wake.notify_one();
            }
        }
    }
}

impl Drop for HelperInner {
    fn drop(&mut self) {
        self.shared.state.lock().expect("no helper panics while it holds the lock").closed = true;
        self.shared.wake.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != me) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use super::queue::Client;

    const NOBODY: Option<Client> = None;

    #[test]
    fn a_full_queue_gives_the_job_back() {
        let pool = HelperPool::start("test", &[], 1, false, 1).unwrap();
        let (release, wait) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let blocker: Job = Box::new(move || {
            started.send(()).unwrap();
            let _ = wait.recv();
        });
        assert!(pool.submit(NOBODY, blocker).is_ok());
        running.recv().unwrap();
        assert!(pool.submit(NOBODY, Box::new(|| ())).is_ok());
        assert!(pool.submit(NOBODY, Box::new(|| ())).is_err());
        drop(release);
    }

    #[test]
    fn a_panicking_job_leaves_the_thread_working() {
        let pool = HelperPool::start("test", &[], 1, false, 8).unwrap();
        assert!(pool.submit(NOBODY, Box::new(|| panic!("expected by the test"))).is_ok());
        let (done, finished) = mpsc::channel();
        assert!(pool.submit(NOBODY, Box::new(move || done.send(7).unwrap())).is_ok());
        assert_eq!(finished.recv().unwrap(), 7);
    }
}
