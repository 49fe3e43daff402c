//! Runs tests: a process each, with a time limit.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::arena::{Arena, SERVER};
use super::results::{Outcome, Results};
use super::samba::Samba;
use super::subject::{OTHER_USER, PASSWORD, USER};
use super::suite::Suite;

/// Tests of a suite that reach the limit before the rest are taken to do the same.
const TIMEOUTS_MAX: usize = 3;

/// Tests that wait for what a server gives up after 35 s, once or more, and the least that they are given, in seconds.
const LONG: [(&str, u64); 2] =
    [("smb2.multichannel.oplocks.test3_specification", 110), ("smb2.multichannel.leases.test4", 110)];

/// Options of smbtorture: as Samba's own selftest tells it.
const OPTIONS: [&str; 7] = [
    "torture:progress=no",
    "torture:timelimit=3",
    "torture:nprocs=2",
    "torture:sharedelay=100000",
    "torture:writetimeupdatedelay=500000",
    "torture:acl_xattr_name=hackme",
    "torture:localdir=",
];

/// A server under test.
#[derive(Debug)]
pub(crate) struct Torture<'a> {
    pub(crate) samba: &'a Samba,
    pub(crate) arena: &'a Arena,
    pub(crate) limit: Duration,
    /// Directory of what tests say.
    pub(crate) out: &'a Path,
    /// Log of the server.
    pub(crate) log: &'a Path,
    /// Further options of smbtorture.
    pub(crate) options: &'static [&'static str],
}

impl Torture<'_> {
    /// Runs all tests of `suites`, as many suites at once as there are `jobs`.
    pub(crate) fn run(&self, suites: &[Suite], jobs: usize) -> anyhow::Result<Results> {
        let tests = self.samba.tests()?;
        let queue = Mutex::new(suites.iter().cloned().collect::<VecDeque<_>>());
        let results = Mutex::new(Results::default());
        let work = |slot| {
            while let Some(suite) = next(&queue) {
                self.suite(&suite, &tests, slot, &results)?;
            }
            anyhow::Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|slot| scope.spawn(move || work(slot))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker tells its errors"))
        })?;
        Ok(results.into_inner().expect("no worker panicked"))
    }

    fn suite(
        &self,
        suite: &Suite,
        tests: &[String],
        slot: usize,
        results: &Mutex<Results>,
    ) -> anyhow::Result<()> {
        let (mut passed, mut late, mut count) = (0, 0, 0);
        let started = Instant::now();
        for test in tests.iter().filter(|test| suite.has(test)) {
            let name = suite.result_name(test);
            let outcome = match late < TIMEOUTS_MAX {
                true => self.test(test, &suite.share(slot), &self.out.join(name.replace('/', "_")))?,
                false => Outcome::Timeout,
            };
            late += usize::from(outcome == Outcome::Timeout);
            passed += usize::from(outcome == Outcome::Success);
            count += 1;
            results.lock().expect("no worker panicked").add(name, outcome);
        }
        let log_len = std::fs::metadata(self.log).map_or(0, |log| log.len());
        eprintln!(
            "smbtorture: {}: {passed} of {count} in {:.1?}; the server has said {log_len} bytes",
            suite.name,
            started.elapsed()
        );
        Ok(())
    }

    fn test(&self, test: &str, share: &str, said: &Path) -> anyhow::Result<Outcome> {
        let log = File::create(said).with_context(|| format!("cannot write {}", said.display()))?;
        let mut command = self.samba.command("usr/bin/smbtorture");
        command.args(["-s", "/dev/null", "--target=samba3", "-U", &format!("{USER}%{PASSWORD}")]);
        command.arg(format!("--basedir={}", self.out.display()));
        for option in OPTIONS.iter().chain(self.options) {
            command.arg(format!("--option={option}"));
        }
        command.arg(format!("--option=torture:user2name={OTHER_USER}"));
        command.arg(format!("--option=torture:user2password={PASSWORD}"));
        command.arg(format!("//{}/{share}", SERVER[0])).arg(test);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = crate::process::Killed(self.arena.start_client(command)?);
        let least = LONG.iter().find(|(long, _)| *long == test).map_or(0, |(_, seconds)| *seconds);
        let give_up = Instant::now() + self.limit.max(Duration::from_secs(least));
        let status = loop {
            if let Some(status) = child.0.try_wait()? {
                break status;
            }
            if Instant::now() > give_up {
                return Ok(Outcome::Timeout);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let said = std::fs::read(said)?;
        Ok(outcome(status, &String::from_utf8_lossy(&said)))
    }
}

fn next(queue: &Mutex<VecDeque<Suite>>) -> Option<Suite> {
    queue.lock().expect("no worker panicked").pop_front()
}

/// Returns the outcome of a test. smbtorture fails where its test does; only a signal that kills it is another
/// outcome.
fn outcome(status: ExitStatus, said: &str) -> Outcome {
    if status.signal().is_some() { Outcome::Crash } else { Outcome::said(said) }
}
