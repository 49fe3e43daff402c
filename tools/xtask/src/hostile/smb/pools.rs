//! Every other pool of SMB, by one address: sessions, pipes, channels, durable opens, leases that are not given back, frames that are
//! begun, watches that overflow.

use smb_wire::Command;
use smb_wire::body::change_notify::{ChangeNotifyRequest, filter};
use smb_wire::body::lock::flags;
use smb_wire::body::write::{WriteRequest, WriteRequestFixed};
use smb_wire::create::Disposition;
use smb_wire::create::access::{rights, share};
use smb_wire::fixed::Fixed;

use super::ATTACKER;
use super::raw::{How, Keeps, Raw};
use crate::hostile::arena::ATTACKER as ADDRESS;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::SMB;

pub(crate) struct Pools;

/// Takes some of one pool; the number of the round makes names.
type Part = fn(&mut Held, &mut Taken, u64) -> anyhow::Result<()>;

impl Scenario for Pools {
    fn name(&self) -> &'static str {
        "smb-pools"
    }

    fn about(&self) -> &'static str {
        "sessions, pipes, durable opens, leases that are not given back, frames that are begun, by one address"
    }

    fn service(&self) -> Service {
        Service::Smb
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let mut held = Held::default();
        let mut taken = Taken::default();
        let parts: [Part; 7] = [sessions, pipes, channels, durable, leases, frames, watches];
        let mut round = 0;
        while !field.is_over() {
            for part in parts.iter().take_while(|_| !field.is_over()) {
                // A refusal is the server's right; what it does not refuse must not harm it.
                if part(&mut held, &mut taken, round).is_err() {
                    taken.refused += 1;
                }
            }
            round += 1;
        }
        let given_up = take_what_was_left(&held.durable)?;
        let Taken { sessions, pipes, channels, durable, leases, frames, changes, refused } = taken;
        Ok(Findings::default()
            .with("sessions", sessions)
            .with("pipes", pipes)
            .with("bindings asked", channels)
            .with("durable opens left", durable)
            .with("leases not given back", leases)
            .with("frames begun", frames)
            .with("changes watched", changes)
            .with("refused", refused)
            .expect(given_up == durable, || {
                format!("{given_up} of {durable} durable opens gave way to an open")
            })
            .expect(
                [sessions, pipes, durable, leases, frames, changes].iter().all(|&taken| taken > 0),
                || "a pool was not reached".to_owned(),
            ))
    }
}

/// Resources that stay to the end.
#[derive(Default)]
struct Held {
    clients: Vec<Raw>,
    /// Names of durable opens that were left.
    durable: Vec<String>,
}

#[derive(Default)]
struct Taken {
    sessions: u64,
    pipes: u64,
    channels: u64,
    durable: u64,
    leases: u64,
    frames: u64,
    changes: u64,
    refused: u64,
}

/// Opens what durable opens were left of, which give way; how many did. The rest would stay for minutes.
fn take_what_was_left(names: &[String]) -> anyhow::Result<u64> {
    let mut client = arrive()?;
    let mut opened = 0;
    for name in names {
        if let Ok(file) = client.create(name, how(Disposition::Open))? {
            client.close(file)?;
            opened += 1;
        }
    }
    Ok(opened)
}

fn arrive() -> anyhow::Result<Raw> {
    Raw::arrive(connect_from(ADDRESS, SMB)?, ATTACKER, false)
}

const fn how(disposition: Disposition) -> How {
    How {
        access: rights::READ_DATA | rights::WRITE_DATA,
        share: share::READ | share::WRITE | share::DELETE,
        disposition,
    }
}

/// Opens one session after the other over one connection.
fn sessions(held: &mut Held, taken: &mut Taken, _round: u64) -> anyhow::Result<()> {
    let mut client = arrive()?;
    for _ in 0..SESSIONS {
        if client.sign_in_anew(ATTACKER)? != smb_wire::Status::SUCCESS {
            break;
        }
        taken.sessions += 1;
    }
    held.clients.push(client);
    Ok(())
}

/// Pipes of one session, and what they remember.
fn pipes(held: &mut Held, taken: &mut Taken, _round: u64) -> anyhow::Result<()> {
    let mut client = arrive()?;
    client.connect_tree_of("IPC$")?;
    for _ in 0..PIPES {
        let Ok(pipe) = client.create("srvsvc", how(Disposition::Open))? else { break };
        taken.pipes += 1;
        // Refused once the session, or the address, has its share of memory.
        let fixed = WriteRequestFixed { file_id: pipe, ..WriteRequestFixed::blank() };
        client.ask(Command::Write, 1, |body| WriteRequest::write(body, fixed, &endless_call()))?;
    }
    held.clients.push(client);
    Ok(())
}

/// Fragments of a call without a last one.
fn endless_call() -> Vec<u8> {
    let fragment = |flags| {
        // Version 5.0, a request; little-endian; length, call 2; length of the arguments, context 0, operation 15.
        let mut out = vec![5, 0, 0, flags, 0x10, 0, 0, 0];
        out.extend((CALL_BYTES + 24).to_le_bytes());
        out.extend([0, 0, 2, 0, 0, 0]);
        out.extend(u32::from(CALL_BYTES).to_le_bytes());
        out.extend([0, 0, 15, 0]);
        out.resize(usize::from(CALL_BYTES) + 24, 0);
        out
    };
    (0..15).flat_map(|n| fragment(u8::from(n == 0))).collect()
}

/// Connections to be bound to a session that has not agreed on it.
fn channels(_held: &mut Held, taken: &mut Taken, _round: u64) -> anyhow::Result<()> {
    let bound = arrive()?;
    for _ in 0..BINDINGS {
        let mut client = Raw::over(connect_from(ADDRESS, SMB)?)?;
        client.negotiate()?;
        client.bind(&bound, ATTACKER)?;
        taken.channels += 1;
    }
    Ok(())
}

/// Leaves durable opens whose connection goes, in names of another case than the files have.
fn durable(held: &mut Held, taken: &mut Taken, round: u64) -> anyhow::Result<()> {
    let mut client = arrive()?;
    for n in 0..DURABLE {
        let name = format!("COLD\\{}", (round * DURABLE + n) % (crate::hostile::server::COLD_FILES as u64));
        let (file, _) = client
            .create_keeping(&name, how(Disposition::Open), Keeps::Durable)?
            .map_err(|status| anyhow::anyhow!("{status}"))?;
        // Other programs of the machine are to see it.
        client.lock(file, flags::EXCLUSIVE)?;
        taken.durable += 1;
        held.durable.push(name);
    }
    Ok(())
}

/// Leases of files that another connection then asks for, and which are never given back.
fn leases(held: &mut Held, taken: &mut Taken, round: u64) -> anyhow::Result<()> {
    let (mut holder, mut other) = (arrive()?, arrive()?);
    for n in 0..LEASES {
        let name = format!("cold\\{}", 10_000 + (round * LEASES + n) % 9_000);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&(round * LEASES + n).to_le_bytes());
        let kept = holder.create_keeping(&name, how(Disposition::Open), Keeps::Lease(key))?;
        if kept.is_ok_and(|(_, is_granted)| is_granted) {
            taken.leases += 1;
            // Its answer comes when the holder has answered, or in 35 s.
            other.send_create(&name, how(Disposition::OverwriteIf))?;
        }
    }
    held.clients.extend([holder, other]);
    Ok(())
}

/// Sends a message of 1 MiB that stops after its first part, and first messages of strangers that do.
fn frames(held: &mut Held, taken: &mut Taken, _round: u64) -> anyhow::Result<()> {
    for (negotiates, length) in [(false, 4 << 10), (true, 65 << 10)] {
        for _ in 0..FRAMES {
            let mut client = Raw::over(connect_from(ADDRESS, SMB)?)?;
            if negotiates {
                client.negotiate()?;
            }
            client.begin_frame(length, &vec![0xfe; length - 1])?;
            taken.frames += 1;
            held.clients.push(client);
        }
    }
    for _ in 0..FRAMES {
        let mut client = arrive()?;
        client.begin_frame(1 << 20, &[0xfe; 128 << 10])?;
        taken.frames += 1;
        held.clients.push(client);
    }
    Ok(())
}

/// Takes a watch that is not asked for again while more changes than it keeps.
fn watches(held: &mut Held, taken: &mut Taken, round: u64) -> anyhow::Result<()> {
    let (mut watcher, mut changer) = (arrive()?, arrive()?);
    let root = How { access: rights::READ_DATA, ..how(Disposition::Open) };
    let root = watcher.create("", root)?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let watch = ChangeNotifyRequest {
        output_buffer_length: 65_536.into(),
        file_id: root,
        completion_filter: (filter::FILE_NAME | filter::SIZE | filter::LAST_WRITE | filter::ATTRIBUTES)
            .into(),
        ..ChangeNotifyRequest::blank()
    };
    watcher.send(Command::ChangeNotify, 1, |body| body.push(&watch))?;
    for n in 0..CHANGES {
        let name = if n == 0 { "changed:stream".to_owned() } else { format!("changed-{}", (round + n) % 2) };
        let file = changer
            .create(&name, how(Disposition::OverwriteIf))?
            .map_err(|status| anyhow::anyhow!("{status}"))?;
        changer.close(file)?;
        taken.changes += 1;
    }
    held.clients.push(watcher);
    Ok(())
}

/// Sessions asked for on one connection; more than it may have.
const SESSIONS: u64 = 300;
const PIPES: u64 = 500;
/// Bytes of arguments in each fragment of a call.
const CALL_BYTES: u16 = 4000;
const BINDINGS: u64 = 8;
const DURABLE: u64 = 64;
const LEASES: u64 = 16;
const FRAMES: u64 = 8;
/// Changes of a watched directory; more than a watch keeps.
const CHANGES: u64 = 1200;
