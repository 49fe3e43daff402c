//! The stock rxperf: Debian packages none, so it is built from Debian's OpenAFS source and its packaged Rx library,
//! in the build directory and without touching the machine's package sources. Nothing of it is in this repository.
//!
//! `LINERATE_RXPERF` names a ready binary instead, `LINERATE_OPENAFS_SOURCE` an unpacked OpenAFS source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// The program, built if need be; `None` where it cannot be had: the test is skipped.
#[track_caller]
pub(crate) fn rxperf() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAM.get_or_init(find_or_build) {
        Ok(program) => Some(program),
        Err(why) => {
            testkit::skip(format_args!("no stock rxperf: {why}"));
            None
        }
    }
}

fn find_or_build() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("LINERATE_RXPERF") {
        return Ok(program.into());
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stock-rxperf");
    let (program, failure) = (cache.join("rxperf"), cache.join("failure"));
    if program.exists() {
        return Ok(program);
    }
    let source = std::env::var_os("LINERATE_OPENAFS_SOURCE").map(PathBuf::from);
    if source.is_none() && is_recent(&failure) {
        let why = fs::read_to_string(&failure).unwrap_or_default();
        return Err(format!("{why} (tried less than a day ago; remove {} to try again)", failure.display()));
    }
    let built = build(&cache, source.as_deref(), &program);
    if let Err(why) = &built {
        // Should it not be written, the next run tries again.
        let _ = fs::write(&failure, why);
    }
    built.map(|()| program)
}

fn build(cache: &Path, source: Option<&Path>, program: &Path) -> Result<(), String> {
    let apt =
        Apt::new(&cache.join("apt")).map_err(|error| format!("cannot write {}: {error}", cache.display()))?;
    apt.run(&["update", "-q"])?;
    let library = cache.join("library");
    apt.run(&["download", "-q", "libopenafs-dev"])?;
    run(Command::new("dpkg").arg("-x").arg(apt.downloaded("libopenafs-dev", ".deb")?).arg(&library))?;
    let rxperf_c = match source {
        Some(source) => source.join("src/tools/rxperf/rxperf.c"),
        None => {
            apt.run(&["source", "-q", "--download-only", "openafs"])?;
            let archive = apt.downloaded("openafs_", ".orig.tar.xz")?;
            let mut tar = Command::new("tar");
            tar.arg("-xJf").arg(archive).arg("-C").arg(cache);
            run(tar.args(["--strip-components=1", "--wildcards", "*/src/tools/rxperf/rxperf.c"]))?;
            cache.join("src/tools/rxperf/rxperf.c")
        }
    };
    let shim = cache.join("shim");
    fs::create_dir_all(&shim)
        .and_then(|()| SHIM.iter().try_for_each(|(name, text)| fs::write(shim.join(name), text)))
        .map_err(|error| format!("cannot write {}: {error}", shim.display()))?;
    let mut cc = Command::new("cc");
    cc.args(["-w", "-O2", "-DAFS_PTHREAD_ENV", "-I"]).arg(&shim);
    cc.arg("-I").arg(library.join("usr/include")).arg(rxperf_c).arg(shim.join("shim.c"));
    run(cc.arg(library.join("usr/lib/libafsrpc.a")).args(["-lpthread", "-lresolv", "-o"]).arg(program))
}

/// apt with lists, cache and sources of its own.
struct Apt {
    dir: PathBuf,
}

impl Apt {
    fn new(dir: &Path) -> io::Result<Self> {
        let release = fs::read_to_string("/etc/os-release")?;
        let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = codename.ok_or_else(|| io::Error::other("this is no Debian release"))?;
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(part))?;
        }
        let mirror = "http://deb.debian.org/debian";
        fs::write(
            dir.join("sources.list"),
            format!("deb {mirror} {codename} main\ndeb-src {mirror} {codename} main\n"),
        )?;
        let at = dir.display();
        let config = format!(
            "Dir::Etc::sourcelist \"{at}/sources.list\";\nDir::Etc::sourceparts \"/nonexistent\";\n\
             Dir::State::Lists \"{at}/lists\";\nDir::Cache \"{at}/cache\";\n\
             APT::Sandbox::User \"root\";\nAcquire::Retries \"1\";\nAcquire::http::Timeout \"20\";\n"
        );
        fs::write(dir.join("apt.conf"), config)?;
        Ok(Self { dir: dir.to_owned() })
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", self.dir.join("apt.conf")).current_dir(&self.dir);
        run(command.args(arguments))
    }

    fn downloaded(&self, prefix: &str, suffix: &str) -> Result<PathBuf, String> {
        let entries = fs::read_dir(&self.dir).map_err(|error| error.to_string())?;
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(prefix) && name.ends_with(suffix)
        };
        let mut found = entries.flatten().map(|entry| entry.path()).filter(named);
        found.next().ok_or_else(|| format!("apt downloaded no {prefix}*{suffix}"))
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let what = format!("{:?}", command.get_program());
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = text.lines().filter(|line| !line.starts_with("W:")).collect();
    Err(format!("{what} {}: {}", output.status, errors.join("; ")))
}

fn is_recent(file: &Path) -> bool {
    let written = fs::metadata(file).and_then(|meta| meta.modified());
    written.is_ok_and(|at| {
        SystemTime::now().duration_since(at).is_ok_and(|age| age < Duration::from_secs(86_400))
    })
}

/// What rxperf and the static Rx library want of libraries that Debian does not package in a form to link with.
const SHIM: &[(&str, &str)] = &[
    ("afsconfig.h", "#define HAVE_SYS_FILE_H 1\n"),
    (
        "roken.h",
        "#include <arpa/inet.h>\n#include <err.h>\n#include <netdb.h>\n#include <signal.h>\n#include <stdio.h>\n\
         #include <stdlib.h>\n#include <string.h>\n#include <strings.h>\n#include <sys/time.h>\n#include <sys/uio.h>\n\
         #include <unistd.h>\n#define getprogname() \"rxperf\"\n#define setprogname(name) ((void)(name))\n",
    ),
    (
        "shim.c",
        "#include <sys/random.h>\n#include <sys/socket.h>\n\
         int hc_RAND_bytes(void *to, int count) { return getrandom(to, count, 0) == count; }\n\
         int rk_socket(int domain, int type, int protocol) { return socket(domain, type, protocol); }\n",
    ),
];
