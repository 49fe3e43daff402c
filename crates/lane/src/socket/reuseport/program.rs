//! The selectors of listener groups, as classic-BPF programs over the kernel's array of the group.

use std::ops::Range;

use super::client_address::{SELECTOR_FACTOR, SELECTOR_SHIFT};
use super::steering::{SteeredSilo, Steering};
use crate::socket::cbpf::{Ancillary, Arithmetic, AssembleError, Assembler, Condition, Label, Program};

/// Place in the kernel's array of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Lane that has its socket at this place.
    pub lane: usize,
    /// True if the lane is to be sent nothing new.
    pub draining: bool,
}

/// Makes the program that returns a random lane of the silo that serves the NIC. Without one there, or for
/// other NICs, it is the kernel's hash; while a lane drains, a random one of the rest in place of the hash,
/// which does not know about draining.
pub(super) fn tcp(steering: &Steering, order: &[Slot]) -> Result<Program, AssembleError> {
    let all = positions(order, 0..steering.lane_count());
    let mut asm = Assembler::new();
    if steering.silos().len() > 1 {
        asm.load_ancillary(Ancillary::IfIndex);
        for silo in steering.silos() {
            let positions = positions(order, silo.lanes.clone());
            if !positions.is_empty() {
                for_nics_of(&mut asm, silo, |asm, _| return_random(asm, &positions));
            }
        }
    }
    if order.iter().any(|slot| slot.draining) && !all.is_empty() {
        return_random(&mut asm, &all);
    } else {
        asm.return_constant(HASH);
    }
    asm.assemble()
}

/// Makes the program for Rx packets. A client's packet goes to a lane of the silo that serves its NIC, fixed
/// by the client's address; through a NIC that no silo serves, to one of all lanes. A packet of a connection
/// that the server opened goes to the lane that its ids lead to. A lane that is gone is stood in for by one
/// of its silo, then by any.
pub(super) fn rx(steering: &Steering, order: &[Slot]) -> Result<Program, AssembleError> {
    let lanes = steering.lane_count();
    let targets = lane_targets(steering, order);
    let mut asm = Assembler::new();
    let (long_enough, by_ids, among_all, resolve) = (asm.label(), asm.label(), asm.label(), asm.label());

    asm.load_length();
    asm.jump_if(Condition::AtLeast(HEADER_BYTES), long_enough);
    asm.return_constant(targets[0]);

    asm.place(long_enough);
    unless_of_client(&mut asm, by_ids);
    load_client_selector(&mut asm);
    if steering.silos().len() > 1 {
        asm.copy_to_x();
        asm.load_ancillary(Ancillary::IfIndex);
        for silo in steering.silos().iter().filter(|silo| !positions(order, silo.lanes.clone()).is_empty()) {
            for_nics_of(&mut asm, silo, |asm, silo| {
                lane_of_silo(asm, silo, lanes);
                asm.jump(resolve);
            });
        }
        asm.copy_from_x();
    }
    asm.jump(among_all);

    asm.place(by_ids);
    asm.load_word(CID_AT);
    asm.compute(Arithmetic::ShiftRight(CHANNEL_BITS));
    asm.copy_to_x();
    asm.load_word(EPOCH_AT);
    asm.compute(Arithmetic::XorX);

    asm.place(among_all);
    asm.compute(Arithmetic::Modulo(lanes as u32));
    asm.place(resolve);
    return_from_table(&mut asm, &targets);
    asm.assemble()
}

/// Emits code that leaves in `A` the result of `client_selector`. IP options and extension headers would
/// stand where the port is looked for; they are the same in all packets of a client, if it sends any.
fn load_client_selector(asm: &mut Assembler) {
    let (of_ipv6, mix) = (asm.label(), asm.label());
    asm.load_network_word(0);
    asm.compute(Arithmetic::ShiftRight(IP_VERSION_SHIFT));
    asm.jump_unless(Condition::Equal(4), of_ipv6);
    asm.load_network_word(IPV4_PORTS_AT);
    asm.compute(Arithmetic::ShiftRight(SOURCE_PORT_SHIFT));
    asm.copy_to_x();
    asm.load_network_word(IPV4_SOURCE_AT);
    asm.compute(Arithmetic::XorX);
    asm.jump(mix);
    asm.place(of_ipv6);
    asm.load_network_word(IPV6_PORTS_AT);
    asm.compute(Arithmetic::ShiftRight(SOURCE_PORT_SHIFT));
    for word in 0..4 {
        asm.copy_to_x();
        asm.load_network_word(IPV6_SOURCE_AT + 4 * word);
        asm.compute(Arithmetic::XorX);
    }
    asm.place(mix);
    asm.compute(Arithmetic::Multiply(SELECTOR_FACTOR));
    asm.compute(Arithmetic::ShiftRight(SELECTOR_SHIFT));
}

/// Emits a jump to `target` for packets of connections that the server opened. The answer to a VERSION
/// question lacks the client's flag too, but servers ask such questions about connections that they accepted.
fn unless_of_client(asm: &mut Assembler, target: Label) {
    let of_client = asm.label();
    asm.load_word(TYPE_AND_FLAGS_AT);
    asm.jump_if(Condition::AnyBit(CLIENT_INITIATED), of_client);
    asm.compute(Arithmetic::ShiftRight(TYPE_SHIFT));
    asm.jump_if(Condition::Equal(TYPE_VERSION), of_client);
    asm.jump(target);
    asm.place(of_client);
}

/// Emits `body` for packets of the silo's NICs; `A` holds the interface index before and, for others, after.
fn for_nics_of(asm: &mut Assembler, silo: &SteeredSilo, body: impl FnOnce(&mut Assembler, &SteeredSilo)) {
    if silo.ifindexes.is_empty() {
        return;
    }
    let (matched, next) = (asm.label(), asm.label());
    for &ifindex in &silo.ifindexes {
        far_jump_if(asm, Condition::Equal(ifindex), matched);
    }
    asm.jump(next);
    asm.place(matched);
    body(asm, silo);
    asm.place(next);
}

/// Emits code that makes of the client's selector in `X` a lane id of the silo in `A`, as `silo_lane` does.
fn lane_of_silo(asm: &mut Assembler, silo: &SteeredSilo, lanes: usize) {
    let Range { start, end } = silo.lanes.clone();
    let (elsewhere, done) = (asm.label(), asm.label());
    asm.copy_from_x();
    asm.compute(Arithmetic::Modulo(lanes as u32));
    if start > 0 {
        asm.jump_unless(Condition::AtLeast(start as u32), elsewhere);
    }
    asm.jump_unless(Condition::AtLeast(end as u32), done);
    asm.place(elsewhere);
    // The quotient is independent of the residue that named the owner, so all lanes here get an equal share.
    asm.copy_from_x();
    asm.compute(Arithmetic::Divide(lanes as u32));
    asm.compute(Arithmetic::Modulo((end - start) as u32));
    if start > 0 {
        asm.compute(Arithmetic::Add(start as u32));
    }
    asm.place(done);
}

/// Emits the return of a random position. Random rather than the NIC's flow hash: virtio and others compute
/// none, and 0 would send all to one lane. A handshake stays with the listener that got its first packet, so
/// a resent SYN is not dealt out again.
fn return_random(asm: &mut Assembler, positions: &[u32]) {
    asm.load_ancillary(Ancillary::Random);
    asm.compute(Arithmetic::Modulo(positions.len() as u32));
    return_from_table(asm, positions);
}

/// Emits a return of `table[A]`; `A` is below the table's length. The table is cut into runs that count up by one, and a
/// binary search finds the run, so an untouched group costs two instructions.
fn return_from_table(asm: &mut Assembler, table: &[u32]) {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in 0..table.len() {
        match runs.last_mut() {
            Some(run) if table[at - 1] != HASH && table[at] == table[at - 1] + 1 => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    search_runs(asm, table, &runs);
}

fn search_runs(asm: &mut Assembler, table: &[u32], runs: &[Range<usize>]) {
    if let [run] = runs {
        return return_from_run(asm, table[run.start], run);
    }
    let (lower, upper) = runs.split_at(runs.len() / 2);
    let above = asm.label();
    asm.jump_if(Condition::AtLeast(upper[0].start as u32), above);
    search_runs(asm, table, lower);
    asm.place(above);
    search_runs(asm, table, upper);
}

fn return_from_run(asm: &mut Assembler, first: u32, run: &Range<usize>) {
    let start = run.start as u32;
    if run.len() == 1 {
        return asm.return_constant(first);
    }
    match first.checked_sub(start) {
        Some(0) => {}
        Some(up) => asm.compute(Arithmetic::Add(up)),
        None => asm.compute(Arithmetic::Subtract(start - first)),
    }
    asm.return_a();
}

/// Emits a conditional jump of any length, as a short one around a long one.
fn far_jump_if(asm: &mut Assembler, condition: Condition, target: Label) {
    let skip = asm.label();
    asm.jump_unless(condition, skip);
    asm.jump(target);
    asm.place(skip);
}

/// Returns the positions of the sockets of `lanes` that take new work, by lane id.
fn positions(order: &[Slot], lanes: Range<usize>) -> Vec<u32> {
    let mut found: Vec<(usize, u32)> = order
        .iter()
        .enumerate()
        .filter(|(_, slot)| lanes.contains(&slot.lane) && !slot.draining)
        .map(|(at, slot)| (slot.lane, at as u32))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}

/// Returns for each lane id the position that takes the lane's packets.
fn lane_targets(steering: &Steering, order: &[Slot]) -> Vec<u32> {
    let all = positions(order, 0..steering.lane_count());
    let mut targets = Vec::with_capacity(steering.lane_count());
    for silo in steering.silos() {
        let here = positions(order, silo.lanes.clone());
        let stand_ins = if here.is_empty() { &all } else { &here };
        for lane in silo.lanes.clone() {
            let own = positions(order, lane..lane + 1).first().copied();
            let stand_in = || stand_ins.get(lane % stand_ins.len().max(1)).copied();
            targets.push(own.or_else(stand_in).unwrap_or(HASH));
        }
    }
    targets
}

/// Position that no group has: the kernel falls back to its hash over all sockets.
const HASH: u32 = u32::MAX;
// Rx packet header: epoch, then connection id with the channel in its low bits; type and flags are bytes 20 and 21.
const EPOCH_AT: u32 = 0;
const CID_AT: u32 = 4;
const CHANNEL_BITS: u32 = 2;
const TYPE_AND_FLAGS_AT: u32 = 20;
const TYPE_SHIFT: u32 = 24;
const TYPE_VERSION: u32 = 13;
const CLIENT_INITIATED: u32 = 0x01 << 16;
const HEADER_BYTES: u32 = 28;
// IP headers without options, and UDP's behind them: source port, destination port.
const IP_VERSION_SHIFT: u32 = 28;
const IPV4_SOURCE_AT: u32 = 12;
const IPV4_PORTS_AT: u32 = 20;
const IPV6_SOURCE_AT: u32 = 8;
const IPV6_PORTS_AT: u32 = 40;
const SOURCE_PORT_SHIFT: u32 = 16;

#[cfg(test)]
mod tests;
