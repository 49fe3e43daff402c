//! Common parts of the commands that move files, whatever the server speaks: a lane to do it on, a progress
//! bar, signals, sums of files.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Context;
use aws_lc_rs::digest::{self, SHA256};
use lane::runtime::{RuntimeOptions, run_here};
use transfer::Progress;

use crate::bar::Bar;
use crate::output::counted;

/// The result of a transfer and the time that it took.
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    pub(crate) seconds: f64,
}

/// Does `work` on a lane, under a progress bar. A signal has it stop at its next step.
pub(crate) fn on_lane<T: 'static>(
    work: impl AsyncFnOnce(Arc<Progress>) -> anyhow::Result<T> + 'static,
) -> anyhow::Result<Timed<T>> {
    let progress = Arc::new(Progress::default());
    stop_at_signals(&progress);
    let bar = bar(&progress);
    let began = Instant::now();
    let working = Arc::clone(&progress);
    let done = run_here(RuntimeOptions::default(), async move { work(working).await });
    bar.stop();
    for failure in progress.take_failures() {
        server::logs::complain(&format!("linerate: {}\n", crate::output::printable(failure.as_bytes())));
    }
    let value = done??;
    Ok(Timed { value, seconds: began.elapsed().as_secs_f64() })
}

/// Returns the code that a failed command ends with: 130 where it was interrupted, as a shell tells it.
pub(crate) fn ended(done: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match done {
        Err(error) if is_interrupted(&error) => {
            server::logs::complain(&format!("linerate: {error:#}\n"));
            Ok(ExitCode::from(130))
        }
        done => done,
    }
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(afs_client::Error::is_interrupted)
        || matches!(error.downcast_ref(), Some(smb_client::TransferError::Interrupted))
}

/// Has SIGINT and SIGTERM end the transfer at its next step, which cleans up; the second one ends the process.
fn stop_at_signals(progress: &Arc<Progress>) {
    use tokio::signal::unix::{SignalKind, signal};
    let progress = Arc::clone(progress);
    let wait = async move {
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if progress.stop.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        }
    };
    // A process without them is ended by default, as ever.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        std::thread::spawn(move || runtime.block_on(wait));
    }
}

/// Computes SHA-256 of a local file.
pub(crate) fn sum_here(path: &Path) -> anyhow::Result<String> {
    let told = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(told)?;
    let mut context = digest::Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).with_context(told)? {
            0 => return Ok(hexadecimal(context)),
            count => context.update(&buffer[..count]),
        }
    }
}

/// Formats a sum as users see it.
pub(crate) fn hexadecimal(sum: digest::Context) -> String {
    sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Draws how far a transfer is.
fn bar(progress: &Arc<Progress>) -> Bar {
    let progress = Arc::clone(progress);
    Bar::start("{elapsed_precise} {wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  {msg}", move |bar| {
        bar.set_length(progress.bytes_wanted.load(Ordering::Relaxed));
        bar.set_position(progress.bytes.load(Ordering::Relaxed));
        bar.set_message(counted(progress.files.load(Ordering::Relaxed), "file", "files"));
    })
}
