//! Log of servers while a case runs on this thread.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    static ERRORS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether all that is sent and answered is printed: `CAMPAIGN_TRACE` is set.
pub fn is_traced() -> bool {
    static IS_TRACED: OnceLock<bool> = OnceLock::new();
    *IS_TRACED.get_or_init(|| std::env::var_os("CAMPAIGN_TRACE").is_some())
}

/// Has errors kept for [`take_errors`] from now on.
pub fn listen() {
    // A second call changes nothing.
    let _ = tracing::subscriber::set_global_default(Listener);
}

/// Takes the errors that this thread has logged since they were last taken.
pub fn take_errors() -> Vec<String> {
    ERRORS.take()
}

struct Listener;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        ERRORS.with_borrow_mut(|errors| {
            if errors.len() < ERRORS_MAX {
                errors.push(text.0);
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

const ERRORS_MAX: usize = 16;
