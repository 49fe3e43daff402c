//! Programs as text, one numbered instruction a line; jumps name the line of their target.

use std::fmt;

use super::*;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, instruction) in self.instructions.iter().enumerate() {
            writeln!(f, "{at:3}: {}", text(at, instruction))?;
        }
        Ok(())
    }
}

fn text(at: usize, instruction: &Instruction) -> String {
    let Instruction { code, jump_true, jump_false, k } = *instruction;
    match code & CLASS_MASK {
        LD if code == LD | W | LEN => "ld #len".to_owned(),
        LD if code == LD | W | ABS => match k.checked_sub(ANCILLARY_BASE) {
            Some(what) => format!("ld #{}", ancillary_name(what)),
            None if k >= NETWORK_BASE => format!("ld [net + {}]", k - NETWORK_BASE),
            None => format!("ld [{k}]"),
        },
        ALU => arithmetic(code, k),
        JMP if code == JMP | JA => format!("ja {}", at + 1 + k as usize),
        JMP => {
            let name = match code & 0xf0 {
                JEQ => "jeq",
                JGT => "jgt",
                JGE => "jge",
                JSET => "jset",
                _ => "j?",
            };
            format!("{name} #{k}, {}, {}", at + 1 + usize::from(jump_true), at + 1 + usize::from(jump_false))
        }
        RET if code == RET | A => "ret a".to_owned(),
        RET if k == u32::MAX => "ret #-1".to_owned(),
        RET => format!("ret #{k}"),
        MISC if code == MISC | TAX => "tax".to_owned(),
        MISC if code == MISC | TXA => "txa".to_owned(),
        _ => format!("? {code:#06x} {k}"),
    }
}

fn arithmetic(code: u16, k: u32) -> String {
    let name = match code & 0xf0 {
        ADD => "add",
        SUB => "sub",
        DIV => "div",
        RSH => "rsh",
        MOD => "mod",
        MUL => "mul",
        XOR => "xor",
        _ => "alu?",
    };
    if code & X != 0 { format!("{name} x") } else { format!("{name} #{k}") }
}

/// Returns the name by which `bpf_asm` knows an ancillary value.
fn ancillary_name(what: u32) -> String {
    const NAMES: [(Ancillary, &str); 5] = [
        (Ancillary::IfIndex, "ifidx"),
        (Ancillary::Queue, "queue"),
        (Ancillary::RxHash, "rxhash"),
        (Ancillary::Cpu, "cpu"),
        (Ancillary::Random, "rand"),
    ];
    let known = NAMES.iter().find(|(ancillary, _)| *ancillary as u32 == what);
    known.map_or_else(|| format!("ext{what}"), |(_, name)| (*name).to_owned())
}
