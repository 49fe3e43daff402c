//! Reports of `linerate get` and `put`.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use transfer::Tree;

use crate::output::{bit_rate, bytes, complain, counted, say};
use crate::transfer_cmd::{Timed, sum_here};

/// Files that went one way or the other.
pub(crate) struct Transferred {
    pub(crate) tree: Tree,
    /// SHA-256 of the one file, the same on both sides, where they were compared.
    pub(crate) sum: Option<String>,
}

impl Transferred {
    /// Creates the result of one file.
    pub(crate) fn file(bytes: u64, sum: Option<String>) -> Self {
        Self { tree: Tree { files: 1, bytes, ..Tree::default() }, sum }
    }

    /// Creates the result of a directory with all beneath it.
    pub(crate) fn tree(tree: Tree) -> Self {
        Self { tree, sum: None }
    }
}

/// Returns the sum of the server's file, if it is the local one's as well.
pub(crate) fn same_sum(local: &Path, there: String) -> anyhow::Result<String> {
    let here = sum_here(local)?;
    if here != there {
        bail!("{} has another SHA-256 sum ({here}) than the server's file ({there})", local.display());
    }
    Ok(there)
}

/// Stream that the result of a transfer is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Output,
    /// Standard error, as the file itself is on standard output.
    Error,
}

/// Writes to `to` what came to be at `target`, which JSON calls `key`. Failures are reported already; the exit code
/// says whether anything failed.
pub(crate) fn tell(
    done: &Timed<Transferred>,
    key: &str,
    target: &dyn Display,
    json: bool,
    to: Tell,
) -> ExitCode {
    let say = |line: &dyn Display| match to {
        Tell::Output => say!("{line}"),
        Tell::Error => complain!("{line}"),
    };
    let Timed { value: Transferred { tree, sum }, seconds } = done;
    let code = if tree.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    let bits = tree.bytes as f64 * 8.0 / seconds.max(1e-6);
    if json {
        let mut report = json!({
            "files": tree.files, "directories": tree.directories, "links": tree.links, "skipped": tree.skipped, "failed": tree.failed,
            "bytes": tree.bytes, "seconds": seconds, "bits_per_second": bits, "sha256": sum,
        });
        report[key] = Value::String(target.to_string());
        say(&report);
        return code;
    }
    let (moved, rate) = (bytes(tree.bytes), bit_rate(bits));
    say(&format_args!("{target}: {moved} in {seconds:.2} s, {rate}{}", of_tree(tree)));
    if let Some(sum) = sum {
        say(&format_args!("sha256 {sum}, as at the server"));
    }
    code
}

/// Returns what more there is to say of a tree.
fn of_tree(tree: &Tree) -> String {
    if tree.directories == 0 {
        return String::new();
    }
    let Tree { directories, files, links, skipped, failed, .. } = tree;
    let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
    let files = counted(*files, "file", "files");
    let directories = counted(*directories, "directory", "directories");
    let links = counted(*links, "link", "links");
    format!("; {files}, {directories}, {links}, {skipped} left alone{failed}")
}
