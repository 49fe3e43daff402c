//! Runs of programs in tests, to prove what the kernel will do.

use super::*;

/// A packet, with the kernel's data about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packet {
    pub(crate) payload: Vec<u8>,
    /// IP and UDP header of the packet.
    pub(crate) network: Vec<u8>,
    pub(crate) ifindex: u32,
    pub(crate) random: u32,
}

impl Program {
    /// Returns the result of the program for this packet.
    pub(crate) fn run(&self, packet: &Packet) -> u32 {
        let (mut a, mut x) = (0u32, 0u32);
        let mut at = 0;
        loop {
            let Instruction { code, jump_true, jump_false, k } = self.instructions[at];
            at += 1;
            match code & CLASS_MASK {
                LD => match load(code, k, packet) {
                    Some(value) => a = value,
                    None => return 0,
                },
                ALU => a = compute(code, a, if code & X != 0 { x } else { k }),
                JMP if code == JMP | JA => at += k as usize,
                JMP => at += usize::from(if holds(code, a, k) { jump_true } else { jump_false }),
                RET => return if code == RET | A { a } else { k },
                MISC if code == MISC | TAX => x = a,
                MISC => a = x,
                _ => unreachable!("the assembler writes no other class"),
            }
        }
    }
}

/// Loads a value for a program; returns `None` where the kernel ends the program.
fn load(code: u16, k: u32, packet: &Packet) -> Option<u32> {
    if code == LD | W | LEN {
        return Some(packet.payload.len() as u32);
    }
    match k.checked_sub(ANCILLARY_BASE) {
        Some(what) if what == Ancillary::IfIndex as u32 => Some(packet.ifindex),
        Some(what) if what == Ancillary::Random as u32 => Some(packet.random),
        Some(what) => panic!("no value given for ancillary {what}"),
        None => {
            let (bytes, k) = match k.checked_sub(NETWORK_BASE) {
                Some(at) => (&packet.network, at),
                None => (&packet.payload, k),
            };
            let word = bytes.get(k as usize..k as usize + 4)?;
            Some(u32::from_be_bytes(word.try_into().unwrap()))
        }
    }
}

fn compute(code: u16, a: u32, operand: u32) -> u32 {
    match code & 0xf0 {
        ADD => a.wrapping_add(operand),
        SUB => a.wrapping_sub(operand),
        DIV => a / operand,
        MOD => a % operand,
        MUL => a.wrapping_mul(operand),
        RSH => a >> operand,
        XOR => a ^ operand,
        other => unreachable!("operation {other:#x}"),
    }
}

fn holds(code: u16, a: u32, k: u32) -> bool {
    match code & 0xf0 {
        JEQ => a == k,
        JGT => a > k,
        JGE => a >= k,
        JSET => a & k != 0,
        other => unreachable!("condition {other:#x}"),
    }
}
