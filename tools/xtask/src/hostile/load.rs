//! Sharing of the CPUs: attackers are nice, and idle time is burnt by a process that is nicer still.
//!
//! The server, its good client and the attackers share one machine. Were the good client measured undisturbed on idle
//! CPUs and then beside attackers that compute, the difference would tell of CPUs that do something, not of a server
//! that shares badly. So no CPU is ever idle: burners take what is left, before, during and after. Attackers take their
//! time from the burners.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that compute for nothing, one on each CPU, until dropped.
#[derive(Debug)]
pub(crate) struct Burners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Burners {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let burn = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                be_nice(BURNER_NICE);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..cpus).map(burn).collect();
        Self { stop, threads }
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}

/// Makes the calling thread an attacker.
pub(crate) fn become_attacker() {
    be_nice(ATTACKER_NICE);
}

/// Sets the nice value of the calling thread; on Linux each thread has its own.
fn be_nice(nice: i32) {
    // Being nicer is always allowed; where it is not, the bars are harder to reach, and nothing else.
    let _ = rustix::process::setpriority_process(None, nice);
}

/// Nice value of attackers: a thirtieth of the CPU time that a thread of nice 0 gets, and over twice that of a burner.
const ATTACKER_NICE: i32 = 15;
const BURNER_NICE: i32 = 19;
