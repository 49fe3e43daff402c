//! Images of a disk: all that processes see, and the whole disk set back to that. So a machine is set back to
//! a snapshot of its disk, or by an operator to a backup of the device. What was given out since (inode
//! numbers and their generations) is given out again, to other files.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::content::Content;
use super::inode::{Attributes, Inode, Name, Node, Stored};
use super::{Disk, ROOT_INO, dev_of};
use crate::backend::file::Timestamp;

/// Content of a disk at a moment, all of that content safe.
#[derive(Clone)]
pub struct Image {
    /// Inodes by number.
    inodes: BTreeMap<u64, Kept>,
    generations: u64,
}

#[derive(Clone)]
struct Kept {
    generation: u32,
    born: Timestamp,
    attributes: Attributes,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    node: KeptNode,
}

#[derive(Clone)]
enum KeptNode {
    File(Vec<u8>),
    /// A directory, as inode numbers by name.
    Directory(BTreeMap<Vec<u8>, u64>),
    Symlink(Vec<u8>),
    Special,
}

impl Disk {
    /// Returns an image of all that has a name, as processes see it.
    pub(super) fn image(&self) -> Image {
        let mut image = Image { inodes: BTreeMap::new(), generations: self.generations };
        let mut left = vec![Rc::clone(&self.root)];
        while let Some(inode) = left.pop() {
            let node = match (&inode.stored.node, inode.directory()) {
                (_, Ok(entries)) => {
                    let entries = entries.borrow();
                    left.extend(entries.values().cloned());
                    KeptNode::Directory(
                        entries.iter().map(|(name, inode)| (name.clone(), inode.ino())).collect(),
                    )
                }
                (Node::File(content), _) => KeptNode::File(content.borrow().to_vec()),
                (Node::Symlink(target), _) => KeptNode::Symlink(target.clone()),
                _ => KeptNode::Special,
            };
            let kept = Kept {
                generation: inode.stored.generation,
                born: inode.born(),
                attributes: inode.attributes.get(),
                xattrs: inode.xattrs.borrow().clone(),
                node,
            };
            image.inodes.insert(inode.ino(), kept);
        }
        image
    }

    /// Sets the disk back to the image's content and nothing else; nothing may be open.
    pub(super) fn set_back(&mut self, image: &Image) {
        self.forget_process();
        self.journal.commit_all();
        let mut stored = HashMap::new();
        self.root = self.take_back(image, ROOT_INO, &mut stored);
        self.generations = image.generations;
        self.by_number.clear();
        self.recount();
    }

    fn take_back(&mut self, image: &Image, number: u64, known: &mut HashMap<u64, Rc<Inode>>) -> Rc<Inode> {
        let Kept { generation, born, attributes, xattrs, node } = &image.inodes[&number];
        let on_disk = match node {
            KeptNode::File(bytes) => {
                let mut content = Content::empty(&self.space);
                content.replace(bytes);
                Node::File(content.into())
            }
            KeptNode::Directory(_) => Node::Directory(std::cell::RefCell::default()),
            KeptNode::Symlink(target) => Node::Symlink(target.clone()),
            KeptNode::Special => Node::Special,
        };
        let stored = Stored::of_image(number, *generation, *born, on_disk, &self.space);
        stored.attributes.set(*attributes);
        stored.xattrs.replace(xattrs.clone());
        let names = if matches!(node, KeptNode::Directory(_)) { 2 } else { 0 };
        let inode = Inode::new(self.next_serial(), dev_of(self.host), Rc::clone(&stored), names);
        known.insert(number, Rc::clone(&inode));
        let KeptNode::Directory(entries) = node else { return inode };
        for (name, &number) in entries {
            let below = match known.get(&number) {
                Some(known) => Rc::clone(known),
                None => self.take_back(image, number, known),
            };
            let grown = if below.is_directory() { &inode } else { &below };
            grown.nlink.set(grown.nlink.get() + 1);
            below.names.borrow_mut().push(Name::new(&inode, name));
            let on_disk = stored.entries().expect("it is one");
            on_disk.borrow_mut().insert(name.clone(), Rc::clone(&below.stored));
            inode.directory().expect("it is one").borrow_mut().insert(name.clone(), below);
        }
        inode
    }
}
