//! Model of one worker's part of the tree: no other worker changes it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
use identity::{Acl, Rights, Side};
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::step::{Bytes, Step};

/// Names, and the files they lead to.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    worker: usize,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) files: BTreeMap<u64, File>,
    next_file: u64,
}

/// Node with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A directory with its own access list.
    Directory(Option<Vec<u8>>),
    File(u64),
    Symlink(String),
}

/// A file, whatever its names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) extended: Option<Vec<u8>>,
}

impl Node {
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl Model {
    /// Directories that are there from the beginning and stay.
    pub(super) fn fixed(worker: usize) -> [String; 3] {
        [format!("w{worker}"), format!("w{worker}/a"), format!("w{worker}/b")]
    }

    /// Returns what lies beneath `root` now of this worker's.
    pub(super) fn of_tree(root: &Path, worker: usize) -> anyhow::Result<Self> {
        let mut model = Self { worker, next_file: 1, ..Self::default() };
        let mut by_inode = BTreeMap::new();
        let mut left = vec![format!("w{worker}"), SHARED.to_owned()];
        while let Some(directory) = left.pop() {
            if directory != SHARED {
                let list = extended(&root.join(&directory), LIST)?;
                model.nodes.insert(directory.clone(), Node::Directory(list));
            }
            for entry in std::fs::read_dir(root.join(&directory)).with_context(|| directory.clone())? {
                let entry = entry?;
                let name = entry.file_name().into_string().map_err(|name| anyhow::anyhow!("{name:?}"))?;
                let path = format!("{directory}/{name}");
                if name.starts_with(RESERVED) || (directory == SHARED && !model.is_own(&path)) {
                    continue;
                }
                let (full, kind) = (entry.path(), entry.file_type()?);
                if kind.is_dir() {
                    left.push(path);
                } else if kind.is_symlink() {
                    let target = std::fs::read_link(full)?;
                    let target = String::from_utf8_lossy(target.as_os_str().as_bytes()).into_owned();
                    model.nodes.insert(path, Node::Symlink(target));
                } else {
                    let inode = entry.metadata()?.ino();
                    let file = match by_inode.get(&inode) {
                        Some(file) => *file,
                        None => {
                            let content = std::fs::read(&full)?;
                            let file = File { content, extended: extended(&full, c"user.torture")? };
                            let file = model.add(file);
                            by_inode.insert(inode, file);
                            file
                        }
                    };
                    model.nodes.insert(path, Node::File(file));
                }
            }
        }
        Ok(model)
    }

    /// Does what a step does.
    ///
    /// # Errors
    /// When it cannot be done: the steps of a worker fit each other.
    pub(super) fn apply(&mut self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Create { path } => {
                let file = self.add(File::default());
                self.put(path, Node::File(file))?;
            }
            Step::Write { path, offset, bytes } => write(&mut self.file(path)?.content, *offset, *bytes),
            Step::Append { path, bytes } => {
                let content = &mut self.file(path)?.content;
                write(content, content.len() as u64, *bytes);
            }
            Step::Truncate { path, len } => self.file(path)?.content.resize(*len as usize, 0),
            Step::SyncFile { .. } | Step::SyncDirectory { .. } => {}
            Step::Publish { path, bytes, .. } => {
                // What is kept with the file that it takes the place of stays.
                let extended = self.extended(path).map(<[u8]>::to_vec);
                let file = self.add(File { content: bytes.make(), extended });
                self.nodes.insert(path.clone(), Node::File(file));
            }
            Step::Rename { from, to } => self.rename(from, to)?,
            Step::Link { from, to } => {
                let node = self.nodes.get(from).with_context(|| from.clone())?.clone();
                self.put(to, node)?;
            }
            Step::Symlink { path, target } => self.put(path, Node::Symlink(target.clone()))?,
            Step::Remove { path } | Step::RemoveDirectory { path } => {
                self.nodes.remove(path).with_context(|| path.clone())?;
            }
            Step::MakeDirectory { path } => {
                // A new directory begins with the list that counts above it.
                let list = self.nearest_list(parent(path));
                self.put(path, Node::Directory(list))?;
            }
            Step::SetExtended { path, value } => self.file(path)?.extended = Some(value.make()),
            Step::RemoveExtended { path } => self.file(path)?.extended = None,
            Step::SetAccessList { path, user } => {
                let list = user.map(|user| access_list(user).encode());
                self.nodes.insert(path.clone(), Node::Directory(list));
            }
        }
        Ok(())
    }

    /// Returns the file that has this name.
    pub(super) fn file_at(&self, path: &str) -> Option<u64> {
        match self.nodes.get(path)? {
            Node::File(file) => Some(*file),
            _ => None,
        }
    }

    pub(super) fn content(&self, path: &str) -> &[u8] {
        self.file_at(path).map_or(&[], |file| &self.files[&file].content)
    }

    pub(super) fn extended(&self, path: &str) -> Option<&[u8]> {
        self.files[&self.file_at(path)?].extended.as_deref()
    }

    /// Returns the names of files, each with those that lead to the same file.
    pub(super) fn links(&self) -> BTreeMap<u64, Vec<&str>> {
        let mut links = BTreeMap::<u64, Vec<&str>>::new();
        for (path, node) in &self.nodes {
            if let Node::File(file) = node {
                links.entry(*file).or_default().push(path);
            }
        }
        links
    }

    /// Returns whether a name is this worker's to change.
    pub(super) fn is_own(&self, path: &str) -> bool {
        match path.strip_prefix(SHARED) {
            Some(name) => name.starts_with(&format!("/w{}-", self.worker)),
            None => true,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.nodes.len() < NODES_MAX
    }

    pub(super) fn paths_of(&self, wanted: impl Fn(&Node) -> bool) -> Vec<String> {
        let fixed = Self::fixed(self.worker);
        let paths = self.nodes.iter().filter(|(path, node)| wanted(node) && !fixed.contains(path));
        paths.map(|(path, _)| path.clone()).collect()
    }

    pub(super) fn empty_directories(&self) -> Vec<String> {
        let mut paths = self.paths_of(Node::is_directory);
        paths.retain(|path| !self.holds_something(path));
        paths
    }

    /// Returns a directory that all workers or this one alone make names in.
    pub(super) fn directory_at_random(&self, rng: &mut SmallRng) -> String {
        let mut directories = self.paths_of(Node::is_directory);
        directories.extend(Self::fixed(self.worker).into_iter().skip(1));
        directories.push(SHARED.to_owned());
        directories.choose(rng).expect("there are some").clone()
    }

    /// Returns a name that may be taken or not.
    pub(super) fn place_at_random(&self, rng: &mut SmallRng) -> String {
        let directory = self.directory_at_random(rng);
        let number = rng.random_range(0..6);
        match directory == SHARED {
            true => format!("{SHARED}/w{}-{number}", self.worker),
            false => format!("{directory}/n{number}"),
        }
    }

    pub(super) fn may_publish(&self, path: &str) -> bool {
        self.nodes.get(path).map_or_else(|| self.has_room(), |node| !node.is_directory())
    }

    /// Returns whether the path is not too deep.
    pub(super) fn may_hold_directory(&self, path: &str) -> bool {
        path.matches('/').count() <= DEPTH_MAX && self.has_room()
    }

    pub(super) fn may_rename(&self, from: &str, to: &str) -> bool {
        if from == to || to.starts_with(&format!("{from}/")) {
            return false;
        }
        let Some(moved) = self.nodes.get(from) else { return false };
        let deep = moved.is_directory() && !self.may_hold_directory(to);
        match self.nodes.get(to) {
            _ if deep => false,
            None => true,
            Some(Node::Directory(_)) => {
                moved.is_directory() && !self.holds_something(to) && !from.starts_with(&format!("{to}/"))
            }
            // Two names of one file stay as they are: nothing would be told apart.
            Some(replaced) => !moved.is_directory() && replaced != moved,
        }
    }

    fn holds_something(&self, directory: &str) -> bool {
        let beneath = format!("{directory}/");
        self.nodes.range(beneath.clone()..).next().is_some_and(|(path, _)| path.starts_with(&beneath))
    }

    fn nearest_list(&self, mut directory: &str) -> Option<Vec<u8>> {
        loop {
            if let Some(Node::Directory(Some(list))) = self.nodes.get(directory) {
                return Some(list.clone());
            }
            match directory.rsplit_once('/') {
                Some((above, _)) => directory = above,
                None => return None,
            }
        }
    }

    fn add(&mut self, file: File) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        self.files.insert(number, file);
        number
    }

    fn put(&mut self, path: &str, node: Node) -> anyhow::Result<()> {
        match self.nodes.insert(path.to_owned(), node) {
            None => Ok(()),
            Some(_) => bail!("{path} is taken"),
        }
    }

    fn file(&mut self, path: &str) -> anyhow::Result<&mut File> {
        let file = self.file_at(path).with_context(|| path.to_owned())?;
        self.files.get_mut(&file).with_context(|| path.to_owned())
    }

    fn rename(&mut self, from: &str, to: &str) -> anyhow::Result<()> {
        let moved = self.nodes.remove(from).with_context(|| from.to_owned())?;
        let beneath = format!("{from}/");
        let inner: Vec<_> = self.nodes.keys().filter(|path| path.starts_with(&beneath)).cloned().collect();
        for path in inner {
            let node = self.nodes.remove(&path).expect("it was just there");
            self.nodes.insert(format!("{to}/{}", &path[beneath.len()..]), node);
        }
        self.nodes.insert(to.to_owned(), moved);
        Ok(())
    }
}

/// Returns the directory that a name lies in.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Makes a list that tells one change from another, and lets the operator in whatever it says.
pub(super) fn access_list(user: u64) -> Acl {
    let mut list = Acl::new();
    let who = format!("user{user}").parse().expect("it is a name");
    list.set(Side::Given, who, Rights::WRITER).expect("one entry is not too many");
    list
}

fn write(content: &mut Vec<u8>, offset: u64, bytes: Bytes) {
    let (start, end) = (offset as usize, offset as usize + bytes.len);
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(&bytes.make());
}

fn extended(path: &Path, name: &std::ffi::CStr) -> anyhow::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 65_536];
    match rustix::fs::lgetxattr(path, name, &mut value) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(rustix::io::Errno::NODATA) => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Directory where all workers make names, each its own.
pub(super) const SHARED: &str = "shared";
/// Prefix of the server's own names.
pub(super) const RESERVED: &str = ".linerate-";
const LIST: &std::ffi::CStr = identity::ATTRIBUTE_PRIVILEGED;
/// Names that a worker has at most; what it does meanwhile stays small.
const NODES_MAX: usize = 40;
const DEPTH_MAX: usize = 4;
