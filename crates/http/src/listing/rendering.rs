//! A listing on its way out, piece by piece.

use std::rc::Rc;

use service::memory::Account;

use super::contents::{Listing, RowPosition};
use super::row::{ListingTotals, Row};
use super::streamed::Streamed;
use super::{Order, html, json};

/// Format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A page for people.
    Html,
    /// One object for programs; see the crate's documentation of listings for its shape.
    Json,
}

/// A listing that is written as far as it was asked for.
#[derive(Debug)]
pub struct Rendering {
    source: RowSource,
    format: Format,
    stage: RenderingStage,
    totals: ListingTotals,
}

/// Source of the rows.
#[derive(Debug)]
enum RowSource {
    Sorted(Listing, RowPosition),
    Streamed(Box<Streamed>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RenderingStage {
    Head,
    Rows,
    Done,
}

impl Rendering {
    /// Creates a rendering; nothing is written yet.
    pub fn new(listing: Listing, format: Format) -> Self {
        Self::of(RowSource::Sorted(listing, RowPosition::default()), format)
    }

    /// Renders a directory that is read while it is shown: [`Rendering::prepare`]. A page ends at 10,000 rows
    /// or soon after, and leads to the next.
    pub fn streamed(streamed: Streamed, format: Format) -> Self {
        Self::of(RowSource::Streamed(Box::new(streamed)), format)
    }

    fn of(source: RowSource, format: Format) -> Self {
        Self { source, format, stage: RenderingStage::Head, totals: ListingTotals::default() }
    }

    /// Returns how it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns whether all is written.
    pub fn is_done(&self) -> bool {
        self.stage == RenderingStage::Done
    }

    /// Brings the next rows where they have to be waited for: before each [`Rendering::render`]. What they take is the `account`'s; without
    /// one they are few.
    ///
    /// # Errors
    /// The directory cannot be read on; what was rendered of it is not all.
    pub async fn prepare(&mut self, account: Option<&Rc<Account>>) -> Result<(), vfs::Error> {
        match &mut self.source {
            RowSource::Streamed(streamed) if self.stage != RenderingStage::Done => {
                streamed.prepare(account).await
            }
            _ => Ok(()),
        }
    }

    /// Appends the next rows until at least `wanted` bytes were written or nothing is left. It writes no more than
    /// one row, or the page's head or end, beyond that: a few KiB. Of a streamed directory it appends no more than what is prepared.
    pub fn render(&mut self, wanted: usize, out: &mut String) {
        let end = out.len() + wanted;
        if self.stage == RenderingStage::Head {
            let (path, order) = match &self.source {
                RowSource::Sorted(listing, _) => (listing.path(), Some(listing.order())),
                RowSource::Streamed(streamed) => (streamed.path(), None),
            };
            self.format.head(path, order, out);
            self.stage = RenderingStage::Rows;
        }
        if self.stage == RenderingStage::Done {
            return;
        }
        let Self { source, format, totals, .. } = self;
        match source {
            RowSource::Sorted(listing, place) => {
                while out.len() < end {
                    let Some(row) = listing.next(place) else {
                        format.end(*totals, out);
                        self.stage = RenderingStage::Done;
                        return;
                    };
                    format.row(row, totals, out);
                }
            }
            RowSource::Streamed(streamed) => {
                while out.len() < end && streamed.show_next(|row| format.row(row, totals, out)) {}
                let is_full = *format == Format::Html && totals.entries() >= PAGE_ROWS;
                if !(streamed.is_done() || is_full && streamed.is_between_parts()) {
                    return;
                }
                let next = (!streamed.is_done()).then(|| streamed.position());
                match format {
                    Format::Html => html::end_of_part(*totals, next, out),
                    Format::Json => json::end(out),
                }
                self.stage = RenderingStage::Done;
            }
        }
    }
}

impl Format {
    fn head(self, path: &[u8], order: Option<Order>, out: &mut String) {
        match self {
            Self::Html => html::head(path, order, out),
            Self::Json => json::head(path, order, out),
        }
    }

    fn row(self, row: Row<'_>, totals: &mut ListingTotals, out: &mut String) {
        match self {
            Self::Html => html::row(row, totals.entries(), out),
            Self::Json => json::row(row, totals.entries() == 0, out),
        }
        totals.count(row);
    }

    fn end(self, totals: ListingTotals, out: &mut String) {
        match self {
            Self::Html => html::end(totals, out),
            Self::Json => json::end(out),
        }
    }
}

/// Rows that a browser lays out and searches without a pause.
const PAGE_ROWS: usize = 10_000;
