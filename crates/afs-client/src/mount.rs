//! Mount points: links that name a volume.

use std::fmt;

/// Content of a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Set if it always leads to the read-write volume (`%`), never to its read-only sites where the way here was
    /// read-only (`#`).
    pub read_write: bool,
    /// Cell of the volume, if the mount point names one.
    pub cell: Option<String>,
    /// The volume, by name or number.
    pub volume: String,
}

impl MountPoint {
    /// Reads a link's text: `#VOLUME.`, `%VOLUME.`, `#CELL:VOLUME.`, `%CELL:VOLUME.`; the last byte, a full stop, does not
    /// count. `None` for what is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (read_write, rest) = match text.chars().next()? {
            '#' => (false, &text[1..]),
            '%' => (true, &text[1..]),
            _ => return None,
        };
        let rest = rest.strip_suffix('.')?;
        let (cell, volume) = match rest.split_once(':') {
            Some((cell, volume)) => (Some(cell.to_owned()).filter(|cell| !cell.is_empty()), volume),
            None => (None, rest),
        };
        let valid = !volume.is_empty() && volume.len() < VOLUME_NAME_MAX;
        valid.then(|| Self { read_write, cell, volume: volume.to_owned() })
    }
}

impl fmt::Display for MountPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.read_write { "%" } else { "#" })?;
        if let Some(cell) = &self.cell {
            write!(f, "{cell}:")?;
        }
        f.write_str(&self.volume)
    }
}

/// Bytes of a volume's name with the zero behind it.
const VOLUME_NAME_MAX: usize = 65;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_name_kind_cell_and_volume() {
        let parsed = |text: &str| MountPoint::parse(text.as_bytes()).map(|point| point.to_string());
        assert_eq!(parsed("#root.cell.").unwrap(), "#root.cell");
        assert_eq!(parsed("%example.org:user.a.").unwrap(), "%example.org:user.a");
        assert_eq!(parsed("#536870915.").unwrap(), "#536870915");
        assert!(MountPoint::parse(b"%v.").unwrap().read_write);
        for text in ["", "#", "#.", "target", "#no-full-stop", "#cell:.", "#\u{e4}"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
