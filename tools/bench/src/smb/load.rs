//! The load itself: sessions shared out over lanes, each with requests under way at once.

use std::sync::Arc;
use std::time::Instant;

use lane::layout::Layout;
use lane::runtime::{RuntimeOptions, run_here};
use smb_client::Error;

use super::actor::{look, sums};
use super::lane_load::{LaneLoad, Target};
pub use super::options::{Options, Work};
pub use super::report::Report;
use super::report::Tally;
use super::session::{Board, Session, new_client};
use crate::Progress;
use crate::share::on_lanes;
use crate::start::StartLine;

/// A load that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The lanes.
    #[error(transparent)]
    Lanes(#[from] lane::runtime::StartError),
    /// The first session, or the file.
    #[error(transparent)]
    Target(#[from] Error),
    /// The file is of the wrong kind.
    #[error("{0} is wanted for this load")]
    Kind(&'static str),
}

/// Runs the load on the lanes of `layout`; `progress` counts along.
///
/// # Errors
/// [`LoadError`]; failures after that are counted in the report instead.
pub fn run(options: &Options, layout: &Layout, progress: &Arc<Progress>) -> Result<Report, LoadError> {
    let look = options.clone();
    let target = run_here(RuntimeOptions::default(), async move { target(&look).await })??;
    let started = Instant::now();
    let line = StartLine::new(layout.lane_count());
    let finish = StartLine::new(layout.lane_count());
    let (shared, counted, common) = (options.clone(), Arc::clone(progress), (line.clone(), finish));
    let tallies = on_lanes(layout, options.sessions, move |share| {
        let (options, target, progress) = (shared.clone(), target.clone(), Arc::clone(&counted));
        let (line, finish) = common.clone();
        async move { LaneLoad { options, target, progress, share }.run(&line, &finish).await }
    })?;
    let mut total = Tally::default();
    tallies.into_iter().for_each(|tally| total.merge(tally));
    let startup = line.began().map_or_else(|| started.elapsed(), |began| began - started);
    Ok(total.report(options, startup))
}

/// Finds what the load is about, and sums it up where it is compared later.
async fn target(options: &Options) -> Result<Target, LoadError> {
    let client = new_client();
    let session = Session::open(options, client).await?;
    let channels = &session.channels;
    let mut target = Target { length: 0, sums: None, run: run_number(), client, board: Board::default() };
    if options.work != Work::Idle {
        let (length, is_directory) = look(channels, &options.name).await?;
        let reads = matches!(options.work, Work::Read | Work::Random);
        match options.work {
            Work::Write | Work::Mixed if !is_directory => return Err(LoadError::Kind("a directory")),
            Work::OpenClose if is_directory => return Err(LoadError::Kind("a file")),
            _ if reads && (is_directory || length < u64::from(options.size)) => {
                return Err(LoadError::Kind("a file as long as a request at least"));
            }
            _ => {}
        }
        target.length = length;
        if reads && options.verify {
            target.sums = Some(Arc::new(sums(channels, &options.name, options.size).await?));
        }
    }
    session.end().await;
    Ok(target)
}

/// Returns the number of this load, for the names of what it makes.
fn run_number() -> u64 {
    let since = lane::time::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
