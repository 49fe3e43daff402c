//! Against a stock cell: OpenAFS's file server and location service.

use std::ffi::CString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use afs_client::{
    Address, Cell, CellOptions, Client, ClientOptions, Error, FileType, Found, Get, Progress, Put, Tree,
    directory, fetch, of_new,
};
use lane::fs::Dir;
use lane::runtime::{RuntimeOptions, run_here};
use testkit::netns::Namespace;
use testkit::stock_cell::StockCell;
use xdr::afs::AfsUuid;

/// Everything against one cell, as it takes a while to start.
#[test]
fn stock_cell_is_read_and_written() {
    let Some(_namespace) = Namespace::new_or_skip() else { return };
    let Some(_cell) = StockCell::start_or_skip() else { return };
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_owned();
    let all = async move {
        let site = Site::new(&path);
        site.files_of_all_sizes_go_up_and_come_back_as_they_were().await;
        site.a_directory_of_2000_names_is_listed().await;
        site.links_are_followed_and_bounded().await;
        site.mount_points_lead_into_volumes().await;
        site.what_is_not_there_is_named().await;
        site.read_only_directories_refuse().await;
        site.trees_go_up_and_come_back().await;
        site.broken_off_files_go_on_where_they_were().await;
        site.cell.close().await;
    };
    let bounded = async { lane::time::timeout(Duration::from_secs(300), all).await };
    run_here(RuntimeOptions::default(), bounded).expect("the machine has io_uring").expect("ends in time");
}

struct Site {
    client: Client,
    cell: Cell,
    local: Dir,
    progress: Arc<Progress>,
}

fn name(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn path(text: &str) -> Vec<Vec<u8>> {
    text.split('/').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253 + at / 65_537) as u8).collect()
}

impl Site {
    fn new(home: &Path) -> Self {
        let options = ClientOptions::new(AfsUuid(*b"a client of test"));
        let client = Client::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options).unwrap();
        let address: Address = format!("afs://{}/pub", StockCell::ADDRESS).parse().unwrap();
        let cell = Cell::new(&client, CellOptions::of(&address).unwrap()).unwrap();
        Self { client, cell, local: Dir::open_root(home).unwrap(), progress: Arc::default() }
    }

    fn put(&self, overwrite: bool) -> Put {
        Put { overwrite, progress: Arc::clone(&self.progress) }
    }

    fn get(&self) -> Get {
        Get { overwrite: true, resume: false, progress: Arc::clone(&self.progress) }
    }

    async fn found(&self, text: &str) -> Result<Found, Error> {
        let mut names = path(text);
        let volume = String::from_utf8(names.remove(0)).unwrap();
        self.cell.find(&volume, &names, true).await
    }

    async fn write(&self, file: &str, bytes: &[u8]) {
        use lane::fs::CreateHow;
        let file = self.local.create(&name(file), CreateHow { mode: 0o644, exclusive: false }).await.unwrap();
        file.truncate(0).await.unwrap();
        let mut at = 0;
        for part in bytes.chunks(16 << 10) {
            let mut buf = lane::current().buffers().get(lane::buffer::BufClass::Large).await;
            assert_eq!(buf.append(part), part.len());
            file.write_at(at, buf).await.0.unwrap();
            at += part.len() as u64;
        }
    }

    async fn read(&self, file: &str) -> Vec<u8> {
        use lane::fs::{OpenHow, OpenKind};
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let file = self.local.open(&name(file), how).await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let buf = lane::current().buffers().get(lane::buffer::BufClass::Large).await;
            let (count, buf) = file.read_at(bytes.len() as u64, buf.spare(), buf).await;
            if count.unwrap() == 0 {
                return bytes;
            }
            bytes.extend_from_slice(&buf);
        }
    }

    async fn files_of_all_sizes_go_up_and_come_back_as_they_were(&self) {
        let root = self.cell.root("pub").await.unwrap();
        for size in [0, 1, 2047, 65_536, 1_000_003, 64 << 20] {
            let bytes = pattern(size);
            self.write("up", &bytes).await;
            let there = format!("file-{size}");
            let stored = self.put(false).file(&self.local, &name("up"), &root, there.as_bytes()).await;
            assert_eq!(stored.unwrap().length, size as u64);
            let found = self.found(&format!("pub/{there}")).await.unwrap();
            assert_eq!((found.metadata.kind, found.metadata.length), (FileType::File, size as u64));
            assert_eq!(found.metadata.mode & 0o777, 0o644);
            let got = self.get().file(&found, &self.local, &name("down")).await;
            assert_eq!(got.unwrap(), size as u64);
            assert!(self.read("down").await == bytes, "{size} bytes differ");
        }
        let again = self.put(false).file(&self.local, &name("up"), &root, b"file-1").await;
        assert!(matches!(again, Err(Error::Taken(_))), "{again:?}");
        self.write("up", b"other").await;
        self.put(true).file(&self.local, &name("up"), &root, b"file-1").await.unwrap();
        let found = self.found("pub/file-1").await.unwrap();
        assert_eq!(fetch::small(&found.server, found.fid, 100).await.unwrap(), b"other");
        // Nothing of what was under way stays.
        let names = directory::list(&root.server, root.fid).await.unwrap();
        assert_eq!(names.len(), 6, "{names:?}");
        assert!(self.client.manager().heard().questions > 0, "the server asked who we are");
    }

    async fn a_directory_of_2000_names_is_listed(&self) {
        let root = self.cell.root("pub").await.unwrap();
        let many = root.server.make_directory(root.fid, b"many", of_new(0o755, None)).await.unwrap();
        for n in 0..2000 {
            let file = format!("a name with a number {n:05}");
            root.server.create(many, file.as_bytes(), of_new(0o600, Some(n))).await.unwrap();
        }
        let listed = directory::list_status(&root.server, many).await.unwrap();
        assert_eq!(listed.len(), 2000);
        for (n, (entry, status)) in listed.iter().enumerate() {
            assert_eq!(entry.name, format!("a name with a number {n:05}").as_bytes());
            let status = status.as_ref().unwrap();
            assert_eq!((status.modified, status.length), (n as u32, 0));
        }
        root.server.remove(many, b"a name with a number 00007").await.unwrap();
        let gone = directory::look_up(&root.server, many, b"a name with a number 00007").await.unwrap();
        assert_eq!(gone, None);
    }

    async fn links_are_followed_and_bounded(&self) {
        let root = self.cell.root("pub").await.unwrap();
        let (server, change) = (&root.server, of_new(0o755, None));
        let sub = server.make_directory(root.fid, b"sub", change).await.unwrap();
        for (link, target) in [
            (&b"to-file"[..], &b"../file-1"[..]),
            (b"to-itself", b"to-itself"),
            (b"to-disk", b"/etc/passwd"),
            (b"to-nothing", b"nothing"),
            (b"up", b".."),
            (b"to-directory", b"../sub/"),
            (b"to-file-slash", b"../file-1/"),
            (b"to-file-dot", b"../file-1/."),
            (b"over-file", b"../file-1/../file-1"),
        ] {
            server.symlink(sub, link, target, change).await.unwrap();
        }
        assert_eq!(self.found("pub/sub/to-file").await.unwrap().metadata.length, 5);
        assert_eq!(self.found("pub/sub/up/sub/./../file-1").await.unwrap().metadata.length, 5);
        // Above a volume's root there is nothing else.
        assert_eq!(self.found("pub/../../sub").await.unwrap().fid, sub);
        let unfollowed = self.cell.find("pub", &path("sub/to-file"), false).await.unwrap();
        assert_eq!(unfollowed.metadata.kind, FileType::Link);
        let error = async |text: &str| self.found(text).await.unwrap_err();
        assert!(matches!(error("pub/sub/to-itself").await, Error::TooManyLinks(_)));
        assert!(matches!(error("pub/sub/to-disk").await, Error::LeavesAfs(..)));
        assert!(matches!(error("pub/sub/to-nothing").await, Error::NotFound(_)));
        assert!(matches!(error("pub/file-1/below").await, Error::NotADirectory(_)));
        // A slash at its end, or a dot, wants a directory, and so does what goes on from a name.
        assert_eq!(self.found("pub/sub/to-directory").await.unwrap().fid, sub);
        for link in ["to-file-slash", "to-file-dot", "over-file", "to-file-slash/."] {
            let found = error(&format!("pub/sub/{link}")).await;
            assert!(matches!(found, Error::NotADirectory(_)), "{link}: {found:?}");
        }
    }

    async fn mount_points_lead_into_volumes(&self) {
        let root = self.cell.root("pub").await.unwrap();
        let other = self.cell.root("other").await.unwrap();
        assert_ne!(root.fid.volume, other.fid.volume);
        let (server, change) = (&root.server, of_new(0o644, None));
        for (mount, text) in [
            (&b"mount"[..], &b"#other."[..]),
            (b"mount-rw", b"%other."),
            (b"mount-cell", b"#elsewhere.example:other."),
            (b"mount-none", b"#no-such-volume."),
        ] {
            server.symlink(root.fid, mount, text, change).await.unwrap();
        }
        assert_eq!(self.found("pub/mount").await.unwrap().fid, other.fid);
        assert_eq!(self.found("pub/mount-rw/../file-1").await.unwrap().metadata.length, 5);
        let copy = self.found("other.readonly").await.unwrap();
        assert_ne!(copy.fid.volume, other.fid.volume);
        let by_number = self.found(&other.fid.volume.to_string()).await.unwrap();
        assert_eq!(by_number.fid, other.fid);
        let error = self.found("pub/mount-cell").await.unwrap_err();
        assert!(matches!(error, Error::OtherCell(..)), "{error}");
        let error = self.found("pub/mount-none").await.unwrap_err();
        assert!(error.to_string().starts_with("VL_NOENT (363524)"), "{error}");
    }

    async fn what_is_not_there_is_named(&self) {
        let error = self.found("no-such-volume").await.unwrap_err();
        assert!(error.to_string().starts_with("VL_NOENT (363524)"), "{error}");
        let error = self.found("pub/nothing/at all").await.unwrap_err();
        assert_eq!(error.to_string(), "pub/nothing/at all: no such file or directory");
        let root = self.cell.root("pub").await.unwrap();
        let forged = afs_wire::Fid { vnode: 2, uniquifier: 77_777, ..root.fid };
        let error = root.server.status(forged).await.unwrap_err();
        assert!(error.to_string().starts_with("VNOVNODE (102)"), "{error}");
        let elsewhere = afs_wire::Fid { volume: 7, ..root.fid };
        let error = root.server.status(elsewhere).await.unwrap_err();
        assert!(error.to_string().starts_with("VNOVOL (103)"), "{error}");
        // Of volumes told by number a file server answers alone, where there is no location service.
        let nobody = SocketAddr::from((StockCell::ADDRESS, 9));
        let alone = CellOptions { file_server: root.server.address(), locations: nobody, name: None };
        let cell = Cell::new(&self.client, alone).unwrap();
        assert_eq!(cell.root(&root.fid.volume.to_string()).await.unwrap().fid, root.fid);
        assert!(matches!(cell.root("pub").await, Err(Error::NoLocations(..))));
    }

    async fn read_only_directories_refuse(&self) {
        let root = self.cell.root("pub").await.unwrap();
        let fid = root.server.make_directory(root.fid, b"closed", of_new(0o755, None)).await.unwrap();
        let closed = self.found("pub/closed").await.unwrap();
        self.put(false).file(&self.local, &name("up"), &closed, b"before").await.unwrap();
        // One positive entry: read and lookup.
        root.server.set_access_list(fid, b"1\n0\nsystem:anyuser 9\n").await.unwrap();
        let error = self.put(false).file(&self.local, &name("up"), &closed, b"file").await.unwrap_err();
        assert!(error.to_string().starts_with("EACCES"), "{error}");
        let found = self.found("pub/closed/before").await.unwrap();
        assert_eq!(fetch::small(&found.server, found.fid, 100).await.unwrap(), b"other");
        let copy = self.cell.root("other.readonly").await.unwrap();
        let error = self.put(false).file(&self.local, &name("up"), &copy, b"file").await.unwrap_err();
        assert!(error.to_string().starts_with("EROFS"), "{error}");
    }

    async fn trees_go_up_and_come_back(&self) {
        for dir in ["tree", "tree/a", "tree/a/b"] {
            let (above, last) = dir.rsplit_once('/').unwrap_or((".", dir));
            let how =
                lane::fs::OpenHow { kind: lane::fs::OpenKind::Directory, symlinks: false, write: false };
            let above = self.local.open(&name(above), how).await.unwrap().into_dir().unwrap();
            above.mkdir(&name(last), 0o755).await.unwrap();
            for n in 0..20 {
                let how = lane::fs::CreateHow { mode: 0o640, exclusive: true };
                let below = self.local.open(&name(dir), OPEN).await.unwrap().into_dir().unwrap();
                let file = below.create(&name(&format!("file {n}")), how).await.unwrap();
                let mut buf = lane::current().buffers().get(lane::buffer::BufClass::Large).await;
                buf.append(&pattern(n * 500));
                file.write_at(0, buf).await.0.unwrap();
                if n == 0 {
                    below.symlink(&name("link"), &name("file 1")).await.unwrap();
                }
            }
        }
        let root = self.cell.root("pub").await.unwrap();
        let bytes = 3 * (0..20).sum::<u64>() * 500;
        let all = Tree { directories: 3, files: 60, links: 3, skipped: 0, failed: 0, bytes };
        let put = self.put(false).tree(&self.local, &name("tree"), &root, b"tree").await;
        assert_eq!(put.unwrap(), all);
        let found = self.found("pub/tree").await.unwrap();
        found.server.symlink(found.fid, b"volume", b"#other.", of_new(0o644, None)).await.unwrap();
        let got = self.get().tree(&found, &self.local, &name("back")).await;
        assert_eq!(got.unwrap(), Tree { skipped: 1, ..all });
        for n in 0..20 {
            assert!(self.read(&format!("back/a/b/file {n}")).await == pattern(n * 500));
        }
        let below = self.local.open(&name("back/a"), OPEN).await.unwrap().into_dir().unwrap();
        assert_eq!(below.read_link_at(&name("link")).await.unwrap(), b"file 1");
        let taken = Get { overwrite: false, ..self.get() };
        // What is there already fails by itself, one by one: 60 files, 3 links.
        let got = taken.tree(&found, &self.local, &name("back")).await.unwrap();
        assert_eq!(got, Tree { directories: 3, skipped: 1, failed: 63, ..Tree::default() });
        let failures = taken.progress.take_failures();
        assert_eq!(failures.len(), 63);
        assert!(
            failures.contains(&"back/a/file 3: file 3 is there already; --overwrite replaces it".to_owned()),
            "{failures:?}"
        );
    }

    async fn broken_off_files_go_on_where_they_were(&self) {
        // Of one connection pieces come in order, so that what came has no gap.
        let mut options = ClientOptions::new(AfsUuid(*b"a client in turn"));
        options.connections = 1;
        let client = Client::bind((Ipv4Addr::UNSPECIFIED, 0).into(), options).unwrap();
        let address: Address = format!("afs://{}/pub", StockCell::ADDRESS).parse().unwrap();
        let cell = Cell::new(&client, CellOptions::of(&address).unwrap()).unwrap();
        let found = cell.find("pub", &path("file-67108864"), true).await.unwrap();
        let progress = Arc::new(Progress::default());
        let get = Get { overwrite: true, resume: true, progress: Arc::clone(&progress) };
        let stop = lane::spawn(async move {
            while progress.bytes.load(std::sync::atomic::Ordering::Relaxed) < 12 << 20 {
                lane::time::sleep(Duration::from_millis(1)).await;
            }
            progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let error = get.file(&found, &self.local, &name("resumed")).await.unwrap_err();
        stop.await;
        assert!(matches!(error, Error::Interrupted), "{error}");
        let get = Get { progress: Arc::default(), ..get };
        let rest = get.file(&found, &self.local, &name("resumed")).await.unwrap();
        assert!(rest > 0 && rest < 64 << 20, "{rest}");
        assert!(self.read("resumed").await == pattern(64 << 20), "bytes differ");
        let names: Vec<_> =
            self.local.entries(1000).await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert!(!names.iter().any(|name| name.starts_with(b".")), "{names:?}");
    }
}

const OPEN: lane::fs::OpenHow =
    lane::fs::OpenHow { kind: lane::fs::OpenKind::Directory, symlinks: false, write: false };
