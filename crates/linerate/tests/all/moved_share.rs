//! A share of Debian's smbd that moves to Linerate with its users, and back: what one of them has written the other tells of in the
//! same words, and keeps to.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::Disk;
use testkit::netns::Namespace;
use testkit::stock_smbd::StockSmbd;

use crate::support::{Launch, linerate, output, tool};

/// Owner of the files, and another user: users of every Debian.
const OWNER: &str = "backup";
const OTHER: &str = "games";
/// A user that may not sign in.
const DISABLED: &str = "news";
const PASSWORD: &str = "Geheim-18";

/// Everything that clients are told of a name of the share: size, attributes and times, streams and what is in them, extended
/// attributes, and the entries of its list that mean the same to both servers.
fn told(site: &Site, name: &str) -> Vec<String> {
    let mut lines = vec![format!("{name}:")];
    let (eas, is_well) = site.asks(OWNER, &format!("geteas {name}"));
    let has_none = eas.contains("NT_STATUS_NO_EAS_ON_FILE");
    assert!(is_well || has_none, "{name}: {eas}");
    let info = site.does(OWNER, &format!("allinfo {name}")) + if has_none { "" } else { &eas };
    let is_same = |line: &&str| {
        // The short name, the last access and the last change are each server's own.
        !["altname", "access_time", "change_time"].iter().any(|other| line.starts_with(other))
    };
    lines.extend(
        info.lines().map(str::trim).filter(|line| !line.is_empty()).filter(is_same).map(str::to_lowercase),
    );
    for stream in lines.clone().iter().filter_map(|line| line.strip_prefix("stream: [:")?.split(':').next()) {
        if !stream.is_empty() {
            let _ = fs::remove_file(site.home.join("fetched"));
            site.does(OWNER, &format!("get {name}:{stream} fetched"));
            let content = fs::read(site.home.join("fetched")).unwrap();
            lines.push(format!("{stream} holds {:?}", String::from_utf8_lossy(&content)));
        }
    }
    lines.extend(site.entries(name));
    lines.sort();
    lines
}

/// A server of the share `moved`, whichever, and where its clients keep their own.
struct Site<'a> {
    home: &'a Path,
}

impl Site<'_> {
    fn client(&self, program: &str, user: &str) -> Command {
        let mut command = tool(program, "smbclient");
        command.args(["-s", "/dev/null", "-U", &format!("{user}%{PASSWORD}")]);
        command.env("LC_ALL", "C.UTF-8").current_dir(self.home);
        command
    }

    /// Returns what smbclient says to these commands, and whether nothing was refused.
    fn asks(&self, user: &str, commands: &str) -> (String, bool) {
        let done = self.client("smbclient", user).args(["-c", commands, SHARE]).output().unwrap();
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        (said.clone(), done.status.success() && !said.contains("NT_STATUS"))
    }

    #[track_caller]
    fn does(&self, user: &str, commands: &str) -> String {
        let (said, is_well) = self.asks(user, commands);
        assert!(is_well, "{commands}: {said}");
        said
    }

    #[track_caller]
    fn is_denied(&self, user: &str, commands: &str) {
        let (said, _) = self.asks(user, commands);
        assert!(said.contains("NT_STATUS_ACCESS_DENIED"), "{commands}: {said}");
    }

    /// Gives a name this list.
    fn set_entries(&self, name: &str, entries: &[(&str, &str)]) {
        let list = entries.iter().map(|(who, what)| format!("ACL:{who}:ALLOWED/{what}")).collect::<Vec<_>>();
        output(self.client("smbcacls", OWNER).args([SHARE, name, "--set", &list.join(",")]));
    }

    /// Returns the entries of a name's list that are not for Samba's or the server's own users.
    fn entries(&self, name: &str) -> Vec<String> {
        let said = output(self.client("smbcacls", OWNER).args(["--numeric", SHARE, name]));
        let said = String::from_utf8(said).unwrap();
        let is_everywhere = |line: &&str| line.starts_with("ACL:S-1-1-0:") || line.starts_with("ACL:S-1-22-");
        said.lines().filter(is_everywhere).map(str::to_owned).collect()
    }

    /// A file with all that Samba keeps of one.
    fn makes(&self, name: &str) {
        fs::write(self.home.join("content"), format!("what {name} holds")).unwrap();
        fs::write(self.home.join("stream"), format!("a stream of {name}")).unwrap();
        self.does(
            OWNER,
            &format!(
                "put content {name}; put stream {name}:one; put stream {name}:two; setea {name} comment short; \
                 setmode {name} +h; setmode {name} +s; utimes {name} 2020:01:02-03:04:05 -1 2021:05:06-07:08:09 -1"
            ),
        );
        self.set_entries(name, &[(EVERYBODY, "0x0/READ"), (&owner_sid(), "0x0/FULL")]);
    }

    /// Checks that lists count.
    fn keeps_to(&self, readable: &str, closed: &str) {
        self.does(OTHER, &format!("get {readable} fetched"));
        self.is_denied(OTHER, &format!("put content {readable}"));
        self.is_denied(OTHER, &format!("get {closed} fetched"));
        self.does(OWNER, &format!("get {closed} fetched"));
    }
}

/// Returns the owner's POSIX identifier, whatever Samba's or our own domain is.
fn owner_sid() -> String {
    let id = output(tool("id", "coreutils").args(["-u", OWNER]));
    format!("S-1-22-1-{}", String::from_utf8(id).unwrap().trim())
}

/// Returns what smbd is to be told beside what it is always.
fn smbd_config(tree: &Path) -> String {
    format!(
        "[global]\nvfs objects = acl_xattr streams_xattr\nstore dos attributes = yes\nea support = yes\n\
         [moved]\npath = {}\nread only = no\nvalid users = {OWNER} {OTHER}\n",
        tree.display()
    )
}

/// Samba's own accounts programs.
fn samba(program: &str, config: &Path, words: &[&str]) -> Command {
    let mut command = tool(program, "samba");
    command.arg(if program == "pdbedit" { "-s" } else { "-c" }).arg(config).args(words);
    command
}

fn add_to_samba(config: &Path, user: &str) {
    let mut add = samba("smbpasswd", config, &["-s", "-a", user]);
    let mut add = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    write!(add.stdin.take().unwrap(), "{PASSWORD}\n{PASSWORD}\n").unwrap();
    assert!(add.wait().unwrap().success());
}

/// Has Linerate know Samba's users, and gives the file that says how it serves the tree.
fn configure(home: &Path, samba_config: &Path, tree: &Path) -> PathBuf {
    let users = output(&mut samba("pdbedit", samba_config, &["-Lw"]));
    fs::write(home.join("users"), users).unwrap();
    let mut import = linerate(["user", "import", "users", "--json", "--accounts", "accounts.toml"]);
    let told: serde_json::Value = serde_json::from_slice(&output(import.current_dir(home))).unwrap();
    let names = |key: &str| {
        let all = told[key].as_array().unwrap().iter();
        let mut names: Vec<_> = all.map(|user| user["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("taken"), [OWNER, OTHER, StockSmbd::USER]);
    assert_eq!(names("left_out"), [DISABLED]);
    let owner = told["taken"].as_array().unwrap().iter().find(|user| user["name"] == OWNER).unwrap();
    assert!(owner["uid"].is_number() && owner["gid"].is_number(), "{owner}");
    let text = format!(
        "[server]\nlanes = 1\nstate_dir = 'state'\n[identity]\naccounts = 'accounts.toml'\n[http]\nlisten = '127.0.0.1:0'\n\
         [https]\nlisten = 'off'\n[admin]\nlisten = '127.0.0.1:0'\n[smb]\nlisten = '{ADDRESS}'\n\
         [[volume]]\nname = 'moved'\npath = '{}'\nwritable = 'listed'\n",
        tree.display()
    );
    fs::write(home.join("linerate.toml"), text).unwrap();
    home.join("linerate.toml")
}

#[test]
fn what_samba_and_linerate_have_written_each_of_them_tells_of_in_the_same_words() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    // ext4 keeps what both of them put beside a file; the directory of temporary files may be anything.
    let Some(disk) = Disk::new_or_skip("ext4", 64, &[]) else { return };
    let tree = disk.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::set_permissions(&tree, PermissionsExt::from_mode(0o777)).unwrap();
    let home = tempfile::tempdir().unwrap();
    let home = &home.path().canonicalize().unwrap();
    let work = home.join("samba");
    fs::create_dir(&work).unwrap();
    let start = || StockSmbd::start(&tree, &work, ADDRESS.parse().unwrap(), &smbd_config(&tree));
    let smbd = match start() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return testkit::skip(format_args!("{error}; `cargo xtask test` installs it"));
        }
        started => started.unwrap(),
    };
    let config = work.join("smb.conf");
    for user in [OWNER, OTHER, DISABLED] {
        add_to_samba(&config, user);
    }
    output(&mut samba("smbpasswd", &config, &["-d", DISABLED]));

    let site = Site { home };
    site.makes("theirs.txt");
    fs::write(home.join("content"), "for its owner alone").unwrap();
    site.does(OWNER, "put content closed.txt; mkdir dir; setmode dir +h; put content dir/below.txt");
    site.set_entries("closed.txt", &[(&owner_sid(), "0x0/FULL")]);
    site.set_entries("dir", &[(EVERYBODY, "OI|CI/READ"), (&owner_sid(), "OI|CI/FULL")]);
    site.keeps_to("theirs.txt", "closed.txt");
    let theirs = told(&site, "theirs.txt");
    let all = theirs.join("\n");
    for part in
        ["attributes: hsa", "one holds", "a stream of theirs.txt", "comment", "2020", "2021", "acl:s-1-1-0:"]
    {
        assert!(all.to_lowercase().contains(part), "{part}: {all}");
    }
    let directory = site.does(OWNER, "allinfo dir");
    assert!(directory.contains("attributes: HD"), "{directory}");
    let below = site.entries("dir");
    drop(smbd);

    let server = Launch::config(&configure(home, &config, &tree)).start();
    assert_eq!(told(&site, "theirs.txt"), theirs);
    assert!(site.does(OWNER, "allinfo dir").contains("attributes: HD"));
    assert_eq!(site.entries("dir"), below);
    site.keeps_to("theirs.txt", "closed.txt");
    let (said, is_well) = site.asks(DISABLED, "ls");
    assert!(!is_well && said.contains("NT_STATUS_LOGON_FAILURE"), "{said}");
    // What is made in Samba's directory has what that hands down; what changes in Samba's file is Samba's to tell later.
    fs::write(home.join("content"), "made in their directory").unwrap();
    site.does(OWNER, "put content dir/new.txt; put stream theirs.txt:three; setmode theirs.txt +r");
    site.is_denied(OTHER, "put content dir/new.txt");
    site.makes("ours.txt");
    let ours = [told(&site, "ours.txt"), told(&site, "theirs.txt"), told(&site, "dir/new.txt")];
    drop(server);

    let _smbd = start().unwrap();
    assert_eq!(told(&site, "ours.txt"), ours[0]);
    assert_eq!(told(&site, "theirs.txt"), ours[1]);
    // Attributes that a file would have anyway are kept nowhere, and Samba takes one without for a file without any.
    let no_attributes = |told: &[String]| {
        told.iter().filter(|line| !line.starts_with("attributes")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(no_attributes(&told(&site, "dir/new.txt")), no_attributes(&ours[2]));
    assert!(ours[1].iter().any(|line| line.starts_with("three holds")), "{:?}", ours[1]);
    site.keeps_to("ours.txt", "closed.txt");
    site.is_denied(OTHER, "put content dir/new.txt");
}

/// smbcacls knows no other port.
const ADDRESS: &str = "127.0.0.1:445";
const SHARE: &str = "//127.0.0.1/moved";
const EVERYBODY: &str = "S-1-1-0";
