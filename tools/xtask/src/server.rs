//! Both servers of a comparison, over the same directory with the same certificate.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::process::{self, Server};

/// A server and where it listens.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    pub(crate) http: SocketAddr,
    pub(crate) https: SocketAddr,
}

impl Subject {
    /// Returns the URL of a file.
    pub(crate) fn url(&self, tls: bool, file: &str) -> String {
        if tls { format!("https://{}/{file}", self.https) } else { format!("http://{}/{file}", self.http) }
    }
}

/// Policy for changes of the tree by clients.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uploads {
    Refused,
    /// Writes are taken from any client.
    Taken,
}

/// Makes a certificate for both servers, RSA 2048 as is common.
pub(crate) fn make_certificate(dir: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    let args =
        ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost", "-keyout"];
    let mut args: Vec<&Path> = args.iter().map(Path::new).collect();
    args.extend([key.as_path(), Path::new("-out"), cert.as_path()]);
    process::output("openssl", &args)?;
    Ok((cert, key))
}

/// Starts nginx, tuned as its owners would: sendfile, open file cache, reuseport, no access log.
pub(crate) fn nginx(
    work: &Path,
    tree: &Path,
    cert: &Path,
    key: &Path,
    uploads: Uploads,
) -> anyhow::Result<Subject> {
    let (http, https) = (free_address()?, free_address()?);
    let config = work.join("nginx.conf");
    let (work, tree, cert, key) = (work.display(), tree.display(), cert.display(), key.display());
    // Bodies are gathered where they are given their name by a rename, in large writes.
    let dav = match uploads {
        Uploads::Refused => "",
        Uploads::Taken => "dav_methods PUT DELETE; client_max_body_size 0; client_body_buffer_size 256k;",
    };
    let text = format!(
        "user root; daemon off; worker_processes auto; pid {work}/nginx.pid; error_log {work}/nginx.err;
         events {{ worker_connections 16384; }}
         http {{ access_log off; sendfile on; tcp_nopush on; sendfile_max_chunk 2m; open_file_cache max=1000;
           keepalive_requests 1000000000; include /etc/nginx/mime.types; client_body_temp_path {work}/body;
           server {{ listen {http} reuseport; root {tree}; {dav} }}
           server {{ listen {https} ssl http2 reuseport; ssl_certificate {cert}; ssl_certificate_key {key};
             ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Options KTLS; root {tree}; }} }}"
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&config).stdin(Stdio::null());
    let server = Server::start("nginx", command, &[http, https])?;
    Ok(Subject { name: "nginx", server, http, https })
}

/// Starts Linerate, built for packages, with its defaults and the same certificate.
pub(crate) fn linerate(
    work: &Path,
    tree: &Path,
    cert: &Path,
    key: &Path,
    uploads: Uploads,
) -> anyhow::Result<Subject> {
    linerate_of(&process::dist_binary()?, work, tree, cert, key, uploads)
}

/// Starts Linerate of another build.
pub(crate) fn linerate_of(
    program: &Path,
    work: &Path,
    tree: &Path,
    cert: &Path,
    key: &Path,
    uploads: Uploads,
) -> anyhow::Result<Subject> {
    let (http, https) = (free_address()?, free_address()?);
    let config = work.join("linerate.toml");
    let text = format!(
        "[server]\nstate_dir = '{}'\n[[volume]]\nname = 'files'\npath = '{}'\nwritable = '{}'\n\
         [http]\nlisten = ['{http}']\n[https]\nlisten = ['{https}']\n\
         [[https.certificate]]\ncert = '{}'\nkey = '{}'\n[admin]\nlisten = '127.0.0.1:0'\n",
        work.join("state").display(),
        tree.display(),
        if uploads == Uploads::Taken { "anyone" } else { "nobody" },
        cert.display(),
        key.display(),
    );
    std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server::start("linerate", command, &[http, https])?;
    Ok(Subject { name: "linerate", server, http, https })
}

/// Returns a free address of loopback: others may run on this machine.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
