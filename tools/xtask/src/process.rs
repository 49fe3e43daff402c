//! Running other programs: loudly when they are the task, and never left behind when they are servers.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Runs a program in the repository's root with our output; its failure is ours.
pub(crate) fn run(program: &str, args: &[&str]) -> anyhow::Result<()> {
    run_with(program, args, &[])
}

/// Runs a program ([`run`]) with variables added to the environment.
pub(crate) fn run_with(program: &str, args: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<()> {
    eprintln!("$ {program} {}", args.join(" "));
    let status = Command::new(program)
        .args(args)
        .envs(variables.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {} failed: {status}", args.join(" "));
    }
    Ok(())
}

/// Runs a program and gives what it printed.
pub(crate) fn output(program: impl AsRef<OsStr>, args: &[impl AsRef<OsStr>]) -> anyhow::Result<String> {
    let output = Command::new(&program).args(args).output();
    let program = program.as_ref().display();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("xtask lies in the repository's `tools`")
}

/// Builds the programs as packages have them, and says where `linerate` is: for what is measured.
pub(crate) fn dist_binary() -> anyhow::Result<PathBuf> {
    run("cargo", &["build", "--profile", "dist", "--package", "linerate", "--package", "linerate-bench"])?;
    Ok(target().join("dist/linerate"))
}

/// Builds `linerate` as a user that builds from source does, and returns its path.
pub(crate) fn release_binary() -> anyhow::Result<PathBuf> {
    run("cargo", &["build", "--release", "--package", "linerate"])?;
    Ok(target().join("release/linerate"))
}

/// Builds the programs as tests do, and says where `linerate` is. Programs and tests of the whole workspace choose the
/// features, so that what the tests have compiled is not compiled again.
pub(crate) fn tested_binary() -> anyhow::Result<PathBuf> {
    run("cargo", &["build", "--workspace", "--bins", "--tests"])?;
    Ok(target().join("debug/linerate"))
}

/// Returns where cargo builds.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target)
}

/// Returns whether a program can be started by its name.
pub(crate) fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain([PathBuf::from("/sbin")]).any(|dir| dir.join(name).is_file())
}

/// Compiles a program in C of the repository into `dir`, under this name.
pub(crate) fn compile_c(name: &str, source: &str, dir: &Path) -> anyhow::Result<PathBuf> {
    let (file, program) = (dir.join(name).with_extension("c"), dir.join(name));
    std::fs::write(&file, source)?;
    output("cc", &["-O2".as_ref(), "-o".as_ref(), program.as_os_str(), file.as_os_str()])?;
    Ok(program)
}

/// A process that is killed when its owner goes.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    /// Starts `command` and waits until it says by this line that it is ready.
    pub(crate) fn start(mut command: Command, ready: &str) -> anyhow::Result<Self> {
        let name = command.get_program().display().to_string();
        let child = command.stdout(Stdio::piped()).spawn();
        let mut process = Self(child.with_context(|| format!("cannot start {name}"))?);
        let mut said = String::new();
        BufReader::new(process.0.stdout.take().context("it has an output")?).read_line(&mut said)?;
        ensure!(said.trim_end() == ready, "{name} does not get ready");
        Ok(process)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to stop.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that is told to stop when its owner goes.
pub(crate) struct Server {
    name: &'static str,
    child: Child,
}

impl Server {
    /// Starts `command` and waits until something accepts at each of `addresses`.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        addresses: &[SocketAddr],
    ) -> anyhow::Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut server = Self { name, child };
        let give_up = Instant::now() + START_TIMEOUT;
        for &address in addresses {
            while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
                if let Some(status) = server.child.try_wait()? {
                    bail!("{name} ended before it listened at {address}: {status}");
                }
                if Instant::now() > give_up {
                    bail!("{name} does not listen at {address} after {START_TIMEOUT:?}");
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // It may be gone already; then there is nothing to stop.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let give_up = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > give_up {
                eprintln!("{} does not stop; killing it", self.name);
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

const START_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
