//! A listing on its way out, piece by piece.

use super::contents::{Listing, Place, Row};
use super::{html, json};

/// How a listing is written.
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
    listing: Listing,
    format: Format,
    stage: Stage,
    place: Place,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Rows,
    Done,
}

/// Sums over the rows written so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) directories: usize,
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Rendering {
    /// Nothing is written yet.
    pub fn new(listing: Listing, format: Format) -> Self {
        Self { listing, format, stage: Stage::Head, place: Place::default(), totals: Totals::default() }
    }

    /// Whether all is written.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Appends the next rows until at least `wanted` bytes were written or nothing is left. It writes no more than
    /// one row, or the page's head or end, beyond that: a few KiB.
    pub fn render(&mut self, wanted: usize, out: &mut String) {
        let end = out.len() + wanted;
        if self.stage == Stage::Head {
            match self.format {
                Format::Html => html::head(&self.listing, out),
                Format::Json => json::head(&self.listing, out),
            }
            self.stage = Stage::Rows;
        }
        while self.stage == Stage::Rows && out.len() < end {
            match self.listing.next(&mut self.place) {
                Some(row) => {
                    match self.format {
                        Format::Html => html::row(row, self.totals.entries(), out),
                        Format::Json => json::row(row, self.totals.entries() == 0, out),
                    }
                    self.totals.count(row);
                }
                None => {
                    match self.format {
                        Format::Html => html::end(self.totals, out),
                        Format::Json => json::end(out),
                    }
                    self.stage = Stage::Done;
                }
            }
        }
    }
}

impl Totals {
    pub(super) fn entries(self) -> usize {
        self.directories + self.files
    }

    fn count(&mut self, row: Row<'_>) {
        if row.directory {
            self.directories += 1;
        } else {
            self.files += 1;
        }
        self.bytes = self.bytes.saturating_add(row.size);
    }
}
