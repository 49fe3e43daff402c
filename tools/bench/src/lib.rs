//! Load generators: clients on lanes that ask as fast as they are answered, check what they get, and
//! report rates and latencies. The command line is `linerate bench`.

pub mod afs;
mod cpu;
pub mod http;
pub mod latency;
mod pattern;
mod progress;
pub mod rx;
mod share;
pub mod smb;
mod start;
pub mod tcp;

use cpu::cpu_seconds;
pub use progress::{Progress, Totals};
