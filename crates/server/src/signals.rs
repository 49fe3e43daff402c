//! Signals that reload and stop a server and reopen its logs. They are caught from before the first listener
//! opens: one that comes while the lanes start waits its turn instead of ending the process by default.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that the administrator may send to the process.
pub(crate) struct Signals {
    hangup: Signal,
    user1: Signal,
    terminate: Signal,
    interrupt: Signal,
}

/// Request of the administrator by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Reload, by SIGHUP: read the configuration again.
    Reload,
    /// Reopening, by SIGUSR1: open the log files again, and nothing else.
    ReopenLogs,
    /// Stop, by SIGTERM or SIGINT: gracefully the first time.
    Stop,
}

impl Signals {
    /// Starts to catch the signals. Called within a tokio runtime.
    ///
    /// # Errors
    /// The kernel's, when a handler cannot be installed.
    pub(crate) fn catch() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal; dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Said {
        tokio::select! {
            _ = self.hangup.recv() => Said::Reload,
            _ = self.user1.recv() => Said::ReopenLogs,
            _ = self.terminate.recv() => Said::Stop,
            _ = self.interrupt.recv() => Said::Stop,
        }
    }
}
