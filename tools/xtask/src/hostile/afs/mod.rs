//! Attacks by clients of AFS.

use afs_client::CellOptions;

use super::arena::SERVER;

pub(crate) mod announced;
pub(crate) mod out_of_band;
pub(crate) mod pools;

/// Returns the cell that the server under attack embeds, of a file server at this port.
fn cell_of(port: u16) -> CellOptions {
    CellOptions { file_server: (SERVER, port).into(), locations: (SERVER, port + 3).into(), name: None }
}
