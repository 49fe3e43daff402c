//! Symbolic links by clients of all three protocols, against the table of docs/design/vfs.md: what is done by a link's name is done to
//! the link or to what it leads to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use testkit::netns::Namespace;

use crate::support::afs_mount::AfsMount;
use crate::support::share::{PASSWORD, Share, USER};
use crate::support::{linerate, output, tool, wait_for};

const CELL: &str = "one.example";

/// Where a link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Led {
    File,
    Directory,
    /// To nothing, within the volume.
    Nowhere,
    /// To or over a file, or nothing, as if that were a directory.
    NoDirectory,
    /// Out of the volume, or to itself.
    Refused,
}

use Led::{Directory, File, NoDirectory, Nowhere, Refused};

/// Links, what they say, and where that leads.
const LINKS: [(&str, &str, Led); 17] = [
    ("to-f", "f", File),
    ("chain", "to-f2", File),
    ("absolute", "TREE/f", File),
    ("by-d", "d/../f", File),
    ("to-d", "d", Directory),
    ("to-d-slash", "d/", Directory),
    ("to-d-dot", "d/.", Directory),
    ("f-slash", "f/", NoDirectory),
    ("f-dot", "f/.", NoDirectory),
    ("f-chain", "f-slash", NoDirectory),
    ("link-slash", "to-f2/", NoDirectory),
    ("absolute-slash", "TREE/f/", NoDirectory),
    ("over-f", "f/../new", NoDirectory),
    ("gone", "nowhere", Nowhere),
    ("gone-in-d", "d/nowhere", Nowhere),
    ("outside", "../secret", Refused),
    ("loop", "loop", Refused),
];

/// What is done by a link's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    HttpGet,
    HttpPut,
    HttpDelete,
    SmbGet,
    SmbPut,
    SmbDelete,
    SmbRename,
    SmbRenameOver,
    AfsRead,
    AfsWrite,
    AfsRemove,
    AfsRename,
    AfsRenameOver,
}

const ACTS: [Act; 13] = [
    Act::HttpGet,
    Act::HttpPut,
    Act::HttpDelete,
    Act::SmbGet,
    Act::SmbPut,
    Act::SmbDelete,
    Act::SmbRename,
    Act::SmbRenameOver,
    Act::AfsRead,
    Act::AfsWrite,
    Act::AfsRemove,
    Act::AfsRename,
    Act::AfsRenameOver,
];

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The file that the link leads to is read.
    Read,
    /// That file is written.
    Written,
    /// What the link leads to, where nothing was, is made.
    Made,
    /// A file has the link's place, and what the link led to is as it was.
    Replaced,
    /// The link is gone, and what it led to is as it was.
    Removed,
    /// The link has another name.
    Renamed,
    /// All is as it was.
    Refused,
}

/// The table.
fn expected(act: Act, led: Led) -> Outcome {
    match (act, led) {
        (Act::HttpGet | Act::SmbGet | Act::AfsRead, File) => Outcome::Read,
        (Act::HttpGet | Act::SmbGet | Act::AfsRead, _) => Outcome::Refused,
        // A PUT makes the resource of this name anew.
        (Act::HttpPut, File | Nowhere | NoDirectory) => Outcome::Replaced,
        (Act::HttpPut, Directory | Refused) => Outcome::Refused,
        (Act::SmbPut | Act::AfsWrite, File) => Outcome::Written,
        // AFS's client follows links by itself.
        (Act::AfsWrite, Nowhere) => Outcome::Made,
        (Act::SmbPut | Act::AfsWrite, _) => Outcome::Refused,
        (Act::HttpDelete | Act::AfsRemove, _) => Outcome::Removed,
        // Without FILE_OPEN_REPARSE_POINT it is opened by what it leads to.
        (Act::SmbDelete, File) => Outcome::Removed,
        (Act::SmbRename, File | Directory) => Outcome::Renamed,
        (Act::SmbDelete | Act::SmbRename, _) => Outcome::Refused,
        (Act::SmbRenameOver | Act::AfsRenameOver, _) => Outcome::Replaced,
        (Act::AfsRename, _) => Outcome::Renamed,
    }
}

/// A tree, its server, and AFS's client of it.
struct Site {
    share: Share,
    afs: AfsMount,
}

impl Site {
    fn tree(&self) -> std::path::PathBuf {
        self.share.home.join("tree")
    }

    /// The tree as each case finds it, in a directory of its own, whose names nobody has looked up.
    fn lay_out(&self, case: &str) -> std::path::PathBuf {
        let at = self.tree().join(case);
        fs::create_dir_all(at.join("d")).unwrap();
        for (name, content) in [("f", "f"), ("d/in", "in"), ("new", "new")] {
            fs::write(at.join(name), content).unwrap();
        }
        symlink("f", at.join("to-f2")).unwrap();
        for (name, says, _) in LINKS {
            // Out of the volume from within the case's directory.
            let says = match name {
                "outside" => "../../secret".to_owned(),
                _ => says.replace("TREE", &at.display().to_string()),
            };
            symlink(says, at.join(name)).unwrap();
        }
        at
    }

    fn curl(&self, words: &[&str], path: &str) -> bool {
        let mut curl = tool("curl", "curl");
        curl.args(["--silent", "--fail", "--max-time", "60", "--output", "got"]).args(words);
        let user = format!("{USER}:{PASSWORD}");
        let curl =
            curl.args(["--user", &user]).arg(self.share.server.url(path)).current_dir(&self.share.home);
        curl.status().unwrap().success()
    }

    fn smb(&self, commands: &str) -> bool {
        !self.share.asks(commands).contains("NT_STATUS")
    }

    fn does(&mut self, act: Act, case: &str, link: &str) -> bool {
        let got = self.share.home.join("got");
        let _ = fs::remove_file(&got);
        let in_afs = format!("mnt/{CELL}/tree/{case}");
        match act {
            Act::HttpGet => self.curl(&[], &format!("/{case}/{link}")) && fs::read(&got).unwrap() == b"f",
            Act::HttpPut => self.curl(&["--upload-file", "new"], &format!("/{case}/{link}")),
            Act::HttpDelete => self.curl(&["--request", "DELETE"], &format!("/{case}/{link}")),
            Act::SmbGet => self.smb(&format!("cd {case}; get {link} got")) && fs::read(&got).unwrap() == b"f",
            Act::SmbPut => self.smb(&format!("cd {case}; put new {link}")),
            Act::SmbDelete => self.smb(&format!("cd {case}; rm {link}")),
            Act::SmbRename => self.smb(&format!("cd {case}; rename {link} renamed")),
            Act::SmbRenameOver => self.smb(&format!("cd {case}; rename new {link} -f")),
            Act::AfsRead => self.afs.does(&format!("test \"$(cat {in_afs}/{link})\" = f")),
            // afsd.fuse stores behind the back of who closes the file: whoever opens it next waits for that.
            Act::AfsWrite => {
                let at = format!("{in_afs}/{link}");
                self.afs.does(&format!("printf new >{at} && head -c 1 {at} >/dev/null"))
            }
            Act::AfsRemove => self.afs.does(&format!("rm -f {in_afs}/{link}; test ! -L {in_afs}/{link}")),
            Act::AfsRename => self.afs.does(&format!("mv -T {in_afs}/{link} {in_afs}/renamed")),
            Act::AfsRenameOver => self.afs.does(&format!("mv -fT {in_afs}/new {in_afs}/{link}")),
        }
    }
}

/// What has become of it on the disk.
fn found(at: &Path, act: Act, link: &str, succeeded: bool) -> Outcome {
    let is_link = |name: &str| fs::symlink_metadata(at.join(name)).is_ok_and(|found| found.is_symlink());
    let read = |name: &str| fs::read_to_string(at.join(name)).unwrap_or_default();
    let target = read("f");
    let is_as_it_was = target == "f" && read("d/in") == "in" && is_link("to-f2");
    let outcome = if is_link(link) {
        let is_made = [at.join("nowhere"), at.join("d/nowhere")].iter().any(|made| made.exists());
        match (target.as_str(), succeeded) {
            ("new", true) => return Outcome::Written,
            _ if is_made => Outcome::Made,
            (_, true) if matches!(act, Act::HttpGet | Act::SmbGet | Act::AfsRead) => Outcome::Read,
            (_, false) => Outcome::Refused,
            (..) => panic!("{act:?} {link}: it says that it is done, and nothing has changed"),
        }
    } else if is_link("renamed") {
        Outcome::Renamed
    } else if at.join(link).is_file() && read(link) == "new" {
        Outcome::Replaced
    } else {
        Outcome::Removed
    };
    assert!(is_as_it_was, "{act:?} {link}: what it leads to has changed");
    outcome
}

#[test]
fn what_each_protocol_does_by_a_links_name_is_done_to_the_link_or_its_target_as_the_table_says() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // A directory whose file system keeps attributes, which that of temporary files may not.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = &home.path().canonicalize().unwrap();
    let Some(afs) = AfsMount::start_or_skip(&home.join("client"), CELL) else { return };
    let tree = home.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(home.join("secret"), "secret").unwrap();
    fs::write(home.join("new"), "new").unwrap();
    let afs_table = format!("[afs]\nlisten = '127.0.0.1:7000'\ncell = '{CELL}'\n");
    output(linerate(["acl", "set", "--clear", "tree", "system:anyuser=all"]).current_dir(home));
    let share = Share::new(home, &tree, &afs_table, "");
    let mut site = Site { share, afs };
    let mut cases = Vec::new();
    for act in ACTS {
        for (link, _, led) in LINKS {
            cases.push((format!("{act:?}-{link}"), act, link, led));
        }
    }
    for (case, ..) in &cases {
        site.lay_out(case);
    }
    site.afs.waits_for(&format!("test -f mnt/{CELL}/tree/{}/f", cases[cases.len() - 1].0));
    wait_for("HTTP to serve what was laid out", || {
        site.curl(&[], &format!("/{}/f", cases[cases.len() - 1].0)).then_some(())
    });
    let mut wrong = Vec::new();
    for (case, act, link, led) in &cases {
        let succeeded = site.does(*act, case, link);
        let outcome = found(&site.tree().join(case), *act, link, succeeded);
        if outcome != expected(*act, *led) {
            wrong.push(format!("{act:?} of {link} ({led:?}): {outcome:?}, not {:?}", expected(*act, *led)));
        }
        assert_eq!(fs::read_to_string(home.join("secret")).unwrap(), "secret", "{case}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
