//! Where the index lies.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{Builder, Database, StorageBackend};

use crate::Error;

/// Opens the file, anew after each failure of it.
pub trait Storage: Send + Sync + 'static {
    /// Opens it, or makes an empty one.
    ///
    /// # Errors
    /// In use, damaged, or not to be read.
    fn open(&self, builder: &Builder) -> Result<Database, Error>;

    /// Puts a damaged one aside, so that the next opening makes an empty one; says where it is.
    ///
    /// # Errors
    /// When it can't.
    fn set_aside(&self) -> Result<PathBuf, Error>;
}

/// A file on a disk, as servers have it.
#[derive(Debug)]
pub struct FileStorage {
    path: PathBuf,
}

/// In memory, for tests and for servers that are to remember nothing. Copies share the bytes.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl FileStorage {
    /// `index.redb` in this directory.
    pub fn in_directory(state: &Path) -> Self {
        Self { path: state.join(FILE_NAME) }
    }
}

impl Storage for FileStorage {
    fn open(&self, builder: &Builder) -> Result<Database, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.path)
            .map_err(|error| Error::Storage(format!("{}: {error}", self.path.display())))?;
        sync_name(&self.path).map_err(|error| Error::Storage(format!("{}: {error}", self.path.display())))?;
        Ok(builder.create_with_backend(FileBackend::new(file)?)?)
    }

    fn set_aside(&self) -> Result<PathBuf, Error> {
        let mut aside = self.path.clone();
        for n in 1.. {
            aside.set_file_name(format!("{FILE_NAME}.damaged-{n}"));
            if !aside.exists() {
                break;
            }
        }
        let moved = std::fs::rename(&self.path, &aside).and_then(|()| sync_name(&aside));
        match moved {
            Ok(()) => Ok(aside),
            Err(error) => Err(Error::Aside { path: aside, error }),
        }
    }
}

/// A new name is safe when its directory is.
fn sync_name(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

impl Storage for Memory {
    fn open(&self, builder: &Builder) -> Result<Database, Error> {
        Ok(builder.create_with_backend(self.clone())?)
    }

    fn set_aside(&self) -> Result<PathBuf, Error> {
        self.bytes().clear();
        Ok(PathBuf::from("nowhere: it was in memory"))
    }
}

impl Memory {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let from = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let part = bytes.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(part);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.bytes().resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes();
        let from = usize::try_from(offset).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let part = bytes.get_mut(from..from + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        part.copy_from_slice(data);
        Ok(())
    }
}

/// Of the index in the state directory.
const FILE_NAME: &str = "index.redb";
