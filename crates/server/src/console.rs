//! Console: a Unix socket by which an administrator of this machine lists the users of services, and ends
//! them ([`service::admin_endpoint`]). Only root and the server's own user are heard, as the kernel tells the
//! user of a peer. The socket has the name of the admin address, in the network namespace of the server, and
//! leaves nothing in any directory.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use service::admin_endpoint::AdminEndpoint;
use tokio::net::{UnixListener, UnixStream, unix};

use crate::state_dir::WRITABLE_BY_OTHERS;

/// Admin endpoints of services, by the service's name.
#[derive(Clone, Default)]
pub(crate) struct AdminEndpoints(Arc<HashMap<&'static str, Arc<dyn AdminEndpoint>>>);

impl FromIterator<(&'static str, Arc<dyn AdminEndpoint>)> for AdminEndpoints {
    fn from_iter<I: IntoIterator<Item = (&'static str, Arc<dyn AdminEndpoint>)>>(endpoints: I) -> Self {
        Self(Arc::new(endpoints.into_iter().collect()))
    }
}

/// Reason why a server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// No process listens, or the one that does gave no answer.
    #[error(
        "no server of this machine can be asked at {address} ({source}): is it running, is this its admin address, and are you root or \
         the user who runs it?"
    )]
    Unreachable {
        /// Admin address of the server.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The state directory does not identify the server's user.
    #[error("state directory {0}")]
    StateDirectory(String),
    /// The service has no such object.
    #[error("there is no {0}")]
    NotThere(String),
    /// The server answered with an error.
    #[error("the server answered {0:?}")]
    Answered(String),
}

/// Listens at the console of the server with this admin address.
///
/// # Errors
/// The kernel's: another server has it.
pub(crate) fn bind(admin: SocketAddr) -> io::Result<StdListener> {
    let listener = StdListener::bind_addr(&name(admin)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: StdListener, endpoints: AdminEndpoints) -> io::Result<()> {
    let listener = Administrators(UnixListener::from_std(listener)?);
    let router = Router::new().route("/{service}/{*path}", get(show).delete(end)).with_state(endpoints);
    axum::serve(listener, router).await
}

/// Server of this machine, as a command addresses it.
#[derive(Clone, Copy, Debug)]
pub struct RunningServer {
    admin: SocketAddr,
    /// User that may hold the console, beside root and the caller.
    believed: Option<u32>,
}

impl RunningServer {
    /// Makes the handle of the server with this admin address, if it is root's or the caller's own. With a
    /// state directory its owner is trusted too.
    ///
    /// # Errors
    /// The state directory is not there, or others than its owner may write to it.
    pub fn new(admin: SocketAddr, state: Option<&std::path::Path>) -> Result<Self, ConsoleError> {
        let believed = state.map(|state| owner_of(state).map_err(ConsoleError::StateDirectory));
        Ok(Self { admin, believed: believed.transpose()? })
    }
}

/// Returns the owner of a directory that no other user may write to.
fn owner_of(state: &std::path::Path) -> Result<u32, String> {
    let told = |why: &str| format!("{}: {why}", state.display());
    let meta = std::fs::metadata(state).map_err(|error| told(&error.to_string()))?;
    if !meta.is_dir() {
        return Err(told("it is no directory"));
    }
    if meta.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(told(
            "others than its owner may write to it, so it does not tell who runs the server: chmod go-w it",
        ));
    }
    Ok(meta.uid())
}

/// Asks a server for its objects at `path`, such as `smb/sessions`, as JSON.
///
/// # Errors
/// [`ConsoleError`].
pub fn ask(server: RunningServer, path: &str) -> Result<String, ConsoleError> {
    exchange(server, "GET", path)
}

/// Asks a server to end its object at `path`, such as `smb/sessions/17`.
///
/// # Errors
/// [`ConsoleError`].
pub fn end_at(server: RunningServer, path: &str) -> Result<(), ConsoleError> {
    exchange(server, "DELETE", path).map(drop)
}

/// Tells a server that lists or modes were changed beside it: later requests of its clients are answered by
/// the new ones.
///
/// # Errors
/// [`ConsoleError`].
pub fn rights_changed(server: RunningServer) -> Result<(), ConsoleError> {
    end_at(server, "rights/known")
}

/// Tells the server ([`rights_changed`]) of a directory that was given a list, which it remembers even before
/// a client asks for it.
///
/// # Errors
/// [`ConsoleError`].
pub fn list_given(server: RunningServer, directory: &std::path::Path) -> Result<(), ConsoleError> {
    end_at(server, &crate::objects::given(directory))
}

/// Sends one request and returns the answer.
fn exchange(server: RunningServer, method: &str, path: &str) -> Result<String, ConsoleError> {
    let unreachable = |source| ConsoleError::Unreachable { address: server.admin, source };
    let answer = converse(server, method, path).map_err(unreachable)?;
    let text = String::from_utf8_lossy(&answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Err(unreachable(io::ErrorKind::UnexpectedEof.into()));
    };
    match head.lines().next().unwrap_or_default() {
        line if line.starts_with("HTTP/1.1 2") => Ok(body.to_owned()),
        line if line.starts_with("HTTP/1.1 404") => Err(ConsoleError::NotThere(path.to_owned())),
        line => Err(ConsoleError::Answered(line.to_owned())),
    }
}

fn converse(server: RunningServer, method: &str, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = StdStream::connect_addr(&name(server.admin)?)?;
    check_server(&stream, server.believed)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // In one piece: a server may answer and close as soon as it has read a part.
    let request = format!("{method} /{path} HTTP/1.1\r\nHost: console\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Checks that the socket's owner is trusted, as any local user could have taken the name first: another one
/// is reported, and asked nothing.
fn check_server(stream: &StdStream, believed: Option<u32>) -> io::Result<()> {
    let (peer, own) = (rustix::net::sockopt::socket_peercred(stream)?.uid, rustix::process::geteuid());
    if is_trusted(peer.as_raw(), own.as_raw(), believed) {
        return Ok(());
    }
    let named = match believed {
        Some(owner) => format!(", nor the user {owner}, who owns the state directory"),
        None => String::new(),
    };
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "its console is held by the user {}, who is neither root nor you{named}: if it is that user's server, name its state directory \
             by --state, or ask as that user",
            peer.as_raw()
        ),
    ))
}

fn is_trusted(peer: u32, own: u32, believed: Option<u32>) -> bool {
    peer == 0 || peer == own || believed == Some(peer)
}

/// Returns the abstract name of a server's console (unix(7)).
fn name(admin: SocketAddr) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("linerate/{admin}"))
}

/// Listener that accepts only users that may administer this server.
struct Administrators(UnixListener);

impl Listener for Administrators {
    type Io = UnixStream;
    type Addr = unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.0.accept().await else {
                // Out of descriptors: as much as of any other listener, it passes.
                tokio::time::sleep(RETRY).await;
                continue;
            };
            let own = rustix::process::geteuid().as_raw();
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == 0 || peer.uid() == own => return (stream, address),
                peer => {
                    let who =
                        peer.map_or_else(|error| error.to_string(), |peer| format!("user {}", peer.uid()));
                    //@ cause: A process of another user has connected to the socket by which `linerate smb` and other commands ask the
                    //@ running server.
                    //@ remedy: Run such commands as root or as the server's own user. If no administrator did, find out which user tried.
                    tracing::warn!(
                        "console: a connection of {who} was refused, as only root and the server's own user may use it; run \
                         `linerate smb` as one of these [console-refused]"
                    );
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

async fn show(
    State(endpoints): State<AdminEndpoints>,
    Path((service, path)): Path<(String, String)>,
) -> Response {
    at(&endpoints, &service, move |endpoint| endpoint.show(&path))
        .await
        .map_or_else(not_there, |json| ([(header::CONTENT_TYPE, "application/json")], json).into_response())
}

async fn end(
    State(endpoints): State<AdminEndpoints>,
    Path((service, path)): Path<(String, String)>,
) -> Response {
    let ended = at(&endpoints, &service, move |endpoint| endpoint.end(&path).then_some(())).await;
    ended.map_or_else(not_there, |()| StatusCode::NO_CONTENT.into_response())
}

/// Asks a service's endpoint, on a thread that may wait.
async fn at<T: Send + 'static>(
    endpoints: &AdminEndpoints,
    service: &str,
    ask: impl FnOnce(&dyn AdminEndpoint) -> Option<T> + Send + 'static,
) -> Option<T> {
    let endpoint = Arc::clone(endpoints.0.get(service)?);
    tokio::task::spawn_blocking(move || ask(&*endpoint)).await.ok().flatten()
}

fn not_there() -> Response {
    (StatusCode::NOT_FOUND, "there is no such thing\n").into_response()
}

const TIMEOUT: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(100);
const ANSWER_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    struct Rooms;

    impl AdminEndpoint for Rooms {
        fn show(&self, path: &str) -> Option<String> {
            (path == "rooms").then(|| "[1]".to_owned())
        }

        fn end(&self, path: &str) -> bool {
            path == "rooms/1"
        }
    }

    #[test]
    fn the_console_shows_and_ends_what_a_service_has_and_nothing_else() {
        // An address that no server of this machine has: nothing listens there but the console.
        let admin: SocketAddr = format!("127.0.0.1:{}", std::process::id() % 50_000 + 1).parse().unwrap();
        let listener = bind(admin).unwrap();
        assert!(bind(admin).is_err(), "two servers have no console in common");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let endpoints = [("inn", Arc::new(Rooms) as Arc<dyn AdminEndpoint>)].into_iter().collect();
            runtime.block_on(serve(listener, endpoints)).unwrap();
        });
        let server = RunningServer::new(admin, None).unwrap();
        assert_eq!(ask(server, "inn/rooms").unwrap(), "[1]");
        end_at(server, "inn/rooms/1").unwrap();
        for nothing in ["inn/guests", "pub/rooms"] {
            assert!(matches!(ask(server, nothing), Err(ConsoleError::NotThere(_))));
        }
        assert!(matches!(end_at(server, "inn/rooms/2"), Err(ConsoleError::NotThere(_))));
    }

    /// Returns the results of commands with `states` as state directories at a console that user 65534 holds.
    fn answers_of_another(states: &[Option<&std::path::Path>]) -> Option<Vec<Result<String, ConsoleError>>> {
        let admin: SocketAddr = format!("127.0.0.2:{}", std::process::id() % 50_000 + 1).parse().unwrap();
        // A command that does not believe it leaves before it has answered.
        let script = "import socket,sys,os\nos.setuid(65534)\ns=socket.socket(socket.AF_UNIX)\ns.bind(b'\\0'+sys.argv[1].encode())\n\
                      s.listen()\nprint('ready',flush=True)\nwhile True:\n c,_=s.accept()\n try:\n  c.recv(1000)\n  \
                      c.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n[]')\n except OSError: pass\n c.close()";
        let mut other = std::process::Command::new("python3");
        other.args(["-c", script, &format!("linerate/{admin}")]).stdout(std::process::Stdio::piped());
        let mut other = other.spawn().ok()?;
        let mut ready = [0; 5];
        let begun = other.stdout.as_mut().unwrap().read_exact(&mut ready);
        let ask = |state: &Option<&std::path::Path>| ask(RunningServer::new(admin, *state)?, "smb/sessions");
        let answers = begun.is_ok().then(|| states.iter().map(ask).collect());
        other.kill().unwrap();
        other.wait().unwrap();
        answers
    }

    #[test]
    fn a_console_of_another_user_is_believed_where_he_owns_the_state_directory_that_is_named_and_nowhere_else()
     {
        assert!(is_trusted(0, 1000, None) && is_trusted(1000, 1000, None) && is_trusted(0, 0, None));
        assert!(!is_trusted(1001, 1000, None) && !is_trusted(1001, 0, None));
        assert!(is_trusted(1001, 0, Some(1001)) && !is_trusted(1002, 0, Some(1001)));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let states: Vec<_> = [(65534, 0o700), (65534, 0o770), (65533, 0o700), (0, 0o700)]
            .map(|(owner, mode)| {
                let state = tempfile::tempdir().unwrap();
                std::os::unix::fs::chown(state.path(), Some(owner), None).unwrap();
                let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
                std::fs::set_permissions(state.path(), mode).unwrap();
                state
            })
            .into();
        let named: Vec<_> =
            std::iter::once(None).chain(states.iter().map(|state| Some(state.path()))).collect();
        let Some(answers) = answers_of_another(&named) else { return };
        let [nobody, own, shared, third, root] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(own.as_ref().unwrap(), "[]", "it is the server's own user");
        assert!(matches!(shared, Err(ConsoleError::StateDirectory(_))), "{shared:?}");
        for refused in [nobody, third, root] {
            let Err(ConsoleError::Unreachable { source, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
