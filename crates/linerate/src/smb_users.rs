//! `linerate smb`: users of the SMB service of a server of this machine, and an end to that; and what any
//! server tells of its interfaces.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use server::console::{self, ConsoleError, RunningServer};
use smb::admin::{ChannelReport, LockReport, OpenReport, SessionReport};

use crate::output::{bytes, json_line, printable, say, table};

mod interfaces;

/// Commands of `linerate smb`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show who is signed in, and by which connections
    ///
    /// A line for each session, and below it one for each of its channels: where it comes from, the lane that serves it with its
    /// NUMA node, the interface that it comes by with that one's node, and what it has moved.
    Sessions(Look),
    /// Show which files and directories are open
    ///
    /// Access and sharing are letters of r (read), w (write) and d (delete); what a client caches, letters of R (reads), H (handles)
    /// and W (writes), with a star where it is a lease. A durable open without a session waits for its client.
    Opens(Look),
    /// Show which ranges of files are locked
    Locks(Look),
    /// Show by which addresses a server, any server, has its clients make more connections
    ///
    /// That is what clients with multichannel go by: they prefer the fastest, and make several connections by an interface with several
    /// receive queues (RSS).
    Interfaces(interfaces::Args),
    /// End a session with all that it has open, or close one open; unwritten data of its client is lost
    Close(Close),
}

#[derive(Debug, clap::Args)]
struct Look {
    /// JSON for scripts
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Debug, clap::Args)]
struct At {
    /// Admin address of the server, which has to run on this machine and be yours (or you root)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8090")]
    server: SocketAddr,
    /// State directory of the server, whose owner is believed to run it: for root, where another user does
    #[arg(long, value_name = "DIR", env = "LINERATE_STATE")]
    state: Option<PathBuf>,
}

impl At {
    fn asked(&self) -> Result<RunningServer, ConsoleError> {
        RunningServer::new(self.server, self.state.as_deref())
    }
}

#[derive(Debug, clap::Args)]
struct Close {
    /// What is to end
    what: What,
    /// Its number, as `sessions` and `opens` show it
    id: String,
    #[command(flatten)]
    at: At,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// A session, on all its connections
    Session,
    /// One open file or directory
    Open,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Sessions(look) => show(look, "smb/sessions", sessions),
        Command::Opens(look) => show(look, "smb/opens", opens),
        Command::Locks(look) => show(look, "smb/locks", locks),
        Command::Interfaces(args) => interfaces::run(args),
        Command::Close(close) => self::close(close),
    }
}

fn close(close: &Close) -> anyhow::Result<ExitCode> {
    let server = close.at.asked()?;
    let (kind, path, id): (_, _, Option<u64>) = match close.what {
        What::Session => ("session", "sessions", session_called(&close.id, server)?),
        What::Open => ("open", "opens", close.id.parse().ok()),
    };
    let none = || format!("SMB has no {kind} {}: `linerate smb {path}` shows those that there are", close.id);
    let id = id.with_context(none)?;
    match console::end_at(server, &format!("smb/{path}/{id}")) {
        Err(ConsoleError::NotThere(_)) => anyhow::bail!(none()),
        ended => ended.with_context(|| format!("the {kind} {} of SMB cannot be ended", close.id))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the session of this number: hexadecimal, as tables and the audit log show it, or decimal, as JSON does.
fn session_called(id: &str, server: RunningServer) -> anyhow::Result<Option<u64>> {
    let all: Vec<SessionReport> = serde_json::from_str(&console::ask(server, "smb/sessions")?)
        .context("the server is of another version")?;
    let is_called =
        |session: &&SessionReport| number(session.id) == id.to_lowercase() || session.id.to_string() == id;
    let called: Vec<_> = all.iter().filter(is_called).map(|session| session.id).collect();
    match called[..] {
        [] => Ok(None),
        [session] => Ok(Some(session)),
        _ => anyhow::bail!(
            "SMB has a session {id} in hexadecimal and another in decimal: give the other number of it"
        ),
    }
}

/// Formats a session's number as the audit log writes it.
fn number(session: u64) -> String {
    format!("{session:x}")
}

fn show<T: serde::de::DeserializeOwned>(look: &Look, path: &str, tell: fn(&[T])) -> anyhow::Result<ExitCode> {
    let answer = console::ask(look.at.asked()?, path)?;
    if look.json {
        say!("{}", json_line(&answer));
    } else {
        let all: Vec<T> = serde_json::from_str(&answer).context("the server is of another version")?;
        tell(&all);
    }
    Ok(ExitCode::SUCCESS)
}

fn sessions(all: &[SessionReport]) {
    let mut sessions =
        table(["Session", "User", "Dialect", "Protection", "Shares", "Open", "Channels"], &[0, 5, 6]);
    let mut channels =
        table(["Session", "From", "Interface", "Lane", "Requests", "Received", "Sent"], &[0, 3, 4, 5, 6]);
    for session in all {
        sessions.add_row([
            number(session.id),
            session.user.clone(),
            session.dialect.clone(),
            protection(session),
            session.shares.join(", "),
            session.opens.to_string(),
            session.channels.len().to_string(),
        ]);
        for channel in &session.channels {
            channels.add_row([
                number(session.id),
                channel.peer.to_string(),
                on_node(channel.interface.as_deref().unwrap_or("-"), channel.interface_node),
                on_node(&channel.lane.to_string(), channel.node),
                channel.requests.to_string(),
                bytes(channel.bytes_in),
                bytes(channel.bytes_out),
            ]);
        }
    }
    say!("{sessions}");
    if !all.is_empty() {
        say!("\n{channels}");
    }
    let far: usize =
        all.iter().flat_map(|session| &session.channels).filter(|channel| is_far(channel)).count();
    if far > 0 {
        say!("\n{far} of these connections are served on another node than their interface is on.");
    }
}

fn is_far(channel: &ChannelReport) -> bool {
    matches!((channel.node, channel.interface_node), (Some(lane), Some(interface)) if lane != interface)
}

fn protection(session: &SessionReport) -> String {
    match (&session.cipher, session.must_seal, session.must_sign) {
        (Some(cipher), true, _) => cipher.clone(),
        (_, _, true) => session.signing.clone(),
        _ => "as asked".to_owned(),
    }
}

fn on_node(what: &str, node: Option<u32>) -> String {
    node.map_or_else(|| what.to_owned(), |node| format!("{what} (node {node})"))
}

fn opens(all: &[OpenReport]) {
    let mut table = table(
        [
            "Open", "Session", "User", "From", "Access", "Sharing", "Caches", "Locks", "Durable", "Share",
            "Path",
        ],
        &[0, 1, 7],
    );
    for open in all {
        let stream = open.stream.as_ref().map(|stream| format!(":{stream}")).unwrap_or_default();
        let slash = if open.directory { "/" } else { "" };
        table.add_row([
            open.id.to_string(),
            if open.session == 0 { "-".to_owned() } else { number(open.session) },
            open.user.clone(),
            open.address.to_string(),
            or_none(&open.access),
            or_none(&open.sharing),
            format!("{}{}", or_none(&open.caching), if open.leased { "*" } else { "" }),
            open.locks.to_string(),
            if open.durable { "yes" } else { "no" }.to_owned(),
            open.share.clone(),
            printable(format!("{}{slash}{stream}", open.path.as_deref().unwrap_or("(removed)")).as_bytes()),
        ]);
    }
    say!("{table}");
}

fn locks(all: &[LockReport]) {
    let mut table =
        table(["Open", "Session", "User", "Offset", "Length", "Exclusive", "Share", "Path"], &[0, 1, 3, 4]);
    for lock in all {
        table.add_row([
            lock.open.to_string(),
            if lock.session == 0 { "-".to_owned() } else { number(lock.session) },
            lock.user.clone(),
            lock.offset.to_string(),
            lock.length.to_string(),
            if lock.exclusive { "yes" } else { "no" }.to_owned(),
            lock.share.clone(),
            printable(lock.path.as_deref().unwrap_or("(removed)").as_bytes()),
        ]);
    }
    say!("{table}");
}

fn or_none(letters: &str) -> String {
    if letters.is_empty() { "-".to_owned() } else { letters.to_owned() }
}
