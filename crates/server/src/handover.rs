//! State that services leave to the next server: a file for each of them in the state directory, beside the
//! index. The files are written when all has ended in order, and are removed before the next server uses
//! them: a server that is killed leaves none, and none is used twice.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use index::checksum;
use service::Service;

/// Passes the state that the last server left to `services`. Files of other services are removed too.
pub(crate) fn hand_over(state: &Path, services: &[Arc<dyn Service>]) {
    for path in files(state) {
        let service = services.iter().find(|service| file_of(state, service.name()) == path);
        match taken(state, &path) {
            Ok(left) => service.into_iter().for_each(|service| service.import_state(left.clone())),
            //@ cause: The file in which the last server has kept what clients had open is damaged, or cannot be read or removed.
            //@ remedy: Look at the disk of the state directory. Clients open their files again by themselves; locks they held are gone.
            Err(error) => tracing::error!(
                "open files of clients: what the last server kept of them in {} cannot be used: {error}; clients have to open them \
                 again [handover-unusable]",
                path.display()
            ),
        }
    }
}

/// Writes the state that `services` leave for the next server.
pub(crate) fn leave(state: &Path, services: &[Arc<dyn Service>]) {
    for service in services {
        let Some(left) = service.export_state() else { continue };
        let path = file_of(state, service.name());
        if let Err(error) = kept(state, &path, &left) {
            //@ cause: At its end the server could not write down what clients have open, as when the disk of the state directory is
            //@ full.
            //@ remedy: Make room on that disk. Clients open their files again by themselves; locks they held are gone.
            tracing::error!(
                "open files of clients: they cannot be kept in {} for the next server: {error}; clients have to open them again \
                 [handover-not-kept]",
                path.display()
            );
        }
    }
}

/// Writes a service's file, whole or not at all.
fn kept(state: &Path, path: &Path, left: &[u8]) -> io::Result<()> {
    let mut head = [0; HEAD_LEN];
    head[..4].copy_from_slice(MAGIC);
    head[4..8].copy_from_slice(&FORMAT.to_le_bytes());
    head[8..16].copy_from_slice(&(left.len() as u64).to_le_bytes());
    head[16..].copy_from_slice(&checksum(left).to_le_bytes());
    let new = path.with_extension(EXTENSION_NEW);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&head)?;
    file.write_all(left)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(state)?.sync_all()
}

/// Reads a service's file and removes it for good.
fn taken(state: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let read = read(path);
    std::fs::remove_file(path)?;
    File::open(state)?.sync_all()?;
    read
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, "it is damaged, or of another version of the server");
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    if len > HEAD_LEN as u64 + LEFT_MAX {
        return Err(damaged());
    }
    file.take(len).read_to_end(&mut bytes)?;
    let (head, left) = bytes.split_first_chunk::<HEAD_LEN>().ok_or_else(damaged)?;
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let is_sound = head[..4] == *MAGIC
        && head[4..8] == FORMAT.to_le_bytes()
        && number(8) == left.len() as u64
        && number(16) == checksum(left);
    if is_sound { Ok(left.to_vec()) } else { Err(damaged()) }
}

/// Returns the files left by any service, and incomplete ones.
fn files(state: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(state) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|it| it == EXTENSION || it == EXTENSION_NEW)).collect()
}

fn file_of(state: &Path, service: &str) -> PathBuf {
    state.join(service).with_extension(EXTENSION)
}

const EXTENSION: &str = "left";
const EXTENSION_NEW: &str = "left-new";
const MAGIC: &[u8; 4] = b"LRLF";
const FORMAT: u32 = 1;
const HEAD_LEN: usize = 24;
/// Bound of a service's state in bytes, above what any leaves.
const LEFT_MAX: u64 = 80 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use service::Settings;
    use service::config::{ConfigError, Document, Keys};
    use service::volumes::VolumeSection;

    use super::*;

    #[derive(Default)]
    struct One {
        heard: Mutex<Vec<Vec<u8>>>,
        leaves: Option<Vec<u8>>,
    }

    impl Service for One {
        fn name(&self) -> &'static str {
            "one"
        }

        fn keys(&self) -> Keys {
            unreachable!("nobody configures it")
        }

        fn listen_keys(&self) -> &'static [&'static str] {
            &[]
        }

        fn read(&self, _: &Document, _: &[VolumeSection]) -> Result<Option<Arc<dyn Settings>>, ConfigError> {
            unreachable!("nobody configures it")
        }

        fn import_state(&self, left: Vec<u8>) {
            self.heard.lock().unwrap().push(left);
        }

        fn export_state(&self) -> Option<Vec<u8>> {
            self.leaves.clone()
        }
    }

    fn heard(state: &Path) -> Vec<Vec<u8>> {
        let one = Arc::new(One::default());
        hand_over(state, &[Arc::clone(&one) as _]);
        one.heard.lock().unwrap().clone()
    }

    fn leaves(state: &Path, what: &[u8]) {
        leave(state, &[Arc::new(One { leaves: Some(what.to_vec()), ..One::default() }) as _]);
    }

    #[test]
    fn what_a_server_leaves_the_next_one_hears_once() {
        let state = tempfile::tempdir().unwrap();
        assert!(heard(state.path()).is_empty());
        leaves(state.path(), b"page");
        assert_eq!(heard(state.path()), [b"page"]);
        assert!(heard(state.path()).is_empty());
        leave(state.path(), &[Arc::new(One::default()) as _]);
        assert!(heard(state.path()).is_empty(), "who leaves nothing leaves no file");
    }

    #[test]
    fn what_is_damaged_foreign_or_half_written_is_taken_away_and_not_heard() {
        let state = tempfile::tempdir().unwrap();
        leaves(state.path(), b"page");
        let path = state.path().join("one.left");
        let sound = std::fs::read(&path).unwrap();
        let torn = (0..sound.len()).map(|len| sound[..len].to_vec());
        let turned = (0..sound.len()).map(|at| {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            bytes
        });
        for wrong in torn.chain(turned).chain([[&sound[..], b"!"].concat()]) {
            std::fs::write(&path, &wrong).unwrap();
            assert!(heard(state.path()).is_empty(), "{wrong:?}");
            assert!(!path.exists());
        }
        std::fs::write(&path, &sound).unwrap();
        hand_over(state.path(), &[]);
        assert!(!path.exists(), "a service that is not wanted any more");
        std::fs::write(state.path().join("one.left-new"), &sound).unwrap();
        std::fs::write(state.path().join("index.redb"), b"").unwrap();
        assert!(heard(state.path()).is_empty());
        assert_eq!(files(state.path()).len(), 0);
        assert!(state.path().join("index.redb").exists());
    }
}
