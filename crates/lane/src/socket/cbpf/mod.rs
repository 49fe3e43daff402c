//! Classic BPF: a small assembler with labels, and a disassembler in the notation of `bpf_asm`.
//!
//! Classic BPF is what `SO_ATTACH_REUSEPORT_CBPF` takes. It needs no privilege and no loader; the machine has an
//! accumulator `A`, an index register `X`, forward jumps only, and ends by returning a number.

mod disassembly;
#[cfg(test)]
pub(crate) mod interpreter;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A program that the kernel will accept: checked for jumps, length and a return at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    instructions: Vec<Instruction>,
}

/// Instruction of a program, laid out as `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) k: u32,
}

/// Data of the kernel about a packet besides its bytes (`SKF_AD_*` of `linux/filter.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ancillary {
    /// Index of the interface by which the packet came in.
    IfIndex = 8,
    /// Number of the receive queue at the NIC.
    Queue = 24,
    /// Flow hash by the NIC; 0 when the NIC computes none.
    RxHash = 32,
    /// Number of the CPU that runs the program.
    Cpu = 36,
    /// A random number, fresh each time.
    Random = 56,
}

/// Comparison of `A` with a constant, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Holds if `A == k`.
    Equal(u32),
    /// Holds if `A > k`.
    Greater(u32),
    /// Holds if `A >= k`.
    AtLeast(u32),
    /// Holds if `A & k != 0`.
    AnyBit(u32),
}

/// Arithmetic on `A`, unsigned and wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Sets `A` to `A + k`.
    Add(u32),
    /// Sets `A` to `A - k`.
    Subtract(u32),
    /// Sets `A` to `A / k`.
    Divide(u32),
    /// Sets `A` to `A % k`.
    Modulo(u32),
    /// Sets `A` to `A * k`.
    Multiply(u32),
    /// Sets `A` to `A >> k`.
    ShiftRight(u32),
    /// Sets `A` to `A ^ X`.
    XorX,
}

/// A place in a program that jumps can name before the place is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// Assembler of a program, from the first instruction to the last.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Instruction index of each label, once placed.
    labels: Vec<Option<usize>>,
    /// Jumps with offsets to be filled in at the end.
    jumps: Vec<Jump>,
}

/// Reason why a program cannot be assembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// A jump leads to a label that was never placed.
    #[error("the jump at instruction {at} leads to a label without a place")]
    Unplaced {
        /// Index of the jump.
        at: usize,
    },
    /// A jump leads backwards, while classic BPF jumps forward only.
    #[error("the jump at instruction {at} leads backwards")]
    Backwards {
        /// Index of the jump.
        at: usize,
    },
    /// A conditional jump is too long: it spans at most 255 instructions.
    #[error("the conditional jump at instruction {at} spans {distance} instructions, above 255")]
    TooFar {
        /// Index of the jump.
        at: usize,
        /// Instructions that the jump skips.
        distance: usize,
    },
    /// An instruction divides by zero, which the kernel refuses.
    #[error("instruction {at} divides by zero")]
    DivisionByZero {
        /// Index of the instruction.
        at: usize,
    },
    /// The program has more instructions than the kernel takes (`BPF_MAXINSNS`), or none.
    #[error("{0} instructions; a program has 1 to 4096")]
    Length(usize),
    /// The last instruction does not return.
    #[error("the program does not end in a return")]
    NoReturn,
}

impl Program {
    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Returns false: a program has at least a return.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Makes this program the selector of the SO_REUSEPORT group that `socket` belongs to, in place of any
    /// other. The kernel treats what it returns as position in the group, and a position outside as "use the
    /// hash".
    pub fn attach_to_reuseport_group(&self, socket: impl AsFd) -> io::Result<()> {
        let program = self.as_filter();
        // SAFETY: `Instruction` has the layout of `sock_filter` (asserted below); the kernel only reads `len` of
        // them, and `program` and the vector outlive the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the program as the kernel takes it, with pointers into `self`.
    pub(crate) fn as_filter(&self) -> libc::sock_fprog {
        libc::sock_fprog {
            len: self.instructions.len() as u16, // At most 4096, checked when it was assembled.
            filter: self.instructions.as_ptr().cast_mut().cast(),
        }
    }
}

impl Assembler {
    /// Makes an empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads into `A` the big-endian 32-bit word at `offset` of the payload. A packet that is shorter ends
    /// the program, which then returns 0: check [`Self::load_length`] first.
    pub fn load_word(&mut self, offset: u32) {
        self.push(LD | W | ABS, offset);
    }

    /// Loads into `A` the big-endian word at `offset` from the start of the IP header.
    pub fn load_network_word(&mut self, offset: u32) {
        self.push(LD | W | ABS, NETWORK_BASE + offset);
    }

    /// Loads into `A` the payload length in bytes.
    pub fn load_length(&mut self) {
        self.push(LD | W | LEN, 0);
    }

    /// Loads into `A` data of the kernel about the packet.
    pub fn load_ancillary(&mut self, what: Ancillary) {
        self.push(LD | W | ABS, ANCILLARY_BASE + what as u32);
    }

    /// Copies `A` to `X`.
    pub fn copy_to_x(&mut self) {
        self.push(MISC | TAX, 0);
    }

    /// Copies `X` to `A`.
    pub fn copy_from_x(&mut self) {
        self.push(MISC | TXA, 0);
    }

    /// Changes `A` by an operation with a constant or with `X`.
    pub fn compute(&mut self, operation: Arithmetic) {
        let (code, k) = match operation {
            Arithmetic::Add(k) => (ADD | K, k),
            Arithmetic::Subtract(k) => (SUB | K, k),
            Arithmetic::Divide(k) => (DIV | K, k),
            Arithmetic::Modulo(k) => (MOD | K, k),
            Arithmetic::Multiply(k) => (MUL | K, k),
            Arithmetic::ShiftRight(k) => (RSH | K, k),
            Arithmetic::XorX => (XOR | X, 0),
        };
        self.push(ALU | code, k);
    }

    /// Ends the program with a constant.
    pub fn return_constant(&mut self, k: u32) {
        self.push(RET | K, k);
    }

    /// Ends the program with the value of `A`.
    pub fn return_a(&mut self) {
        self.push(RET | A, 0);
    }

    /// Returns a label to jump to and to [`place`](Self::place) later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives `label` the place of the next instruction.
    pub fn place(&mut self, label: Label) {
        debug_assert!(self.labels[label.0].is_none(), "a label has one place");
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// Jumps to `target`, however far.
    pub fn jump(&mut self, target: Label) {
        self.jumps.push(Jump { at: self.instructions.len(), target, kind: JumpKind::Always });
        self.push(JMP | JA, 0);
    }

    /// Jumps to `target` when the condition holds, else goes on to the next instruction. Spans at most 255
    /// instructions.
    pub fn jump_if(&mut self, condition: Condition, target: Label) {
        self.conditional(condition, target, JumpKind::IfTrue);
    }

    /// Jumps to `target` unless the condition holds. Spans at most 255 instructions.
    pub fn jump_unless(&mut self, condition: Condition, target: Label) {
        self.conditional(condition, target, JumpKind::IfFalse);
    }

    /// Resolves the jumps and returns the finished program.
    pub fn assemble(mut self) -> Result<Program, AssembleError> {
        for jump in std::mem::take(&mut self.jumps) {
            self.resolve(jump)?;
        }
        let divides_by_zero = |instruction: &Instruction| {
            [ALU | DIV | K, ALU | MOD | K].contains(&instruction.code) && instruction.k == 0
        };
        if let Some(at) = self.instructions.iter().position(divides_by_zero) {
            return Err(AssembleError::DivisionByZero { at });
        }
        match self.instructions.last() {
            Some(last) if self.instructions.len() <= INSTRUCTIONS_MAX => {
                if last.code & CLASS_MASK != RET {
                    return Err(AssembleError::NoReturn);
                }
            }
            _ => return Err(AssembleError::Length(self.instructions.len())),
        }
        Ok(Program { instructions: self.instructions })
    }

    fn push(&mut self, code: u16, k: u32) {
        self.instructions.push(Instruction { code, jump_true: 0, jump_false: 0, k });
    }

    fn conditional(&mut self, condition: Condition, target: Label, kind: JumpKind) {
        let (code, k) = match condition {
            Condition::Equal(k) => (JEQ, k),
            Condition::Greater(k) => (JGT, k),
            Condition::AtLeast(k) => (JGE, k),
            Condition::AnyBit(k) => (JSET, k),
        };
        self.jumps.push(Jump { at: self.instructions.len(), target, kind });
        self.push(JMP | code | K, k);
    }

    fn resolve(&mut self, Jump { at, target, kind }: Jump) -> Result<(), AssembleError> {
        let place = self.labels[target.0].ok_or(AssembleError::Unplaced { at })?;
        if place == self.instructions.len() {
            return Err(AssembleError::NoReturn);
        }
        let distance = place.checked_sub(at + 1).ok_or(AssembleError::Backwards { at })?;
        let near = u8::try_from(distance).map_err(|_| AssembleError::TooFar { at, distance });
        let instruction = &mut self.instructions[at];
        match kind {
            JumpKind::Always => instruction.k = distance as u32,
            JumpKind::IfTrue => instruction.jump_true = near?,
            JumpKind::IfFalse => instruction.jump_false = near?,
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    at: usize,
    target: Label,
    kind: JumpKind,
}

#[derive(Clone, Copy, Debug)]
enum JumpKind {
    Always,
    IfTrue,
    IfFalse,
}

const _: () = assert!(
    size_of::<Instruction>() == size_of::<libc::sock_filter>()
        && align_of::<Instruction>() == align_of::<libc::sock_filter>()
);

// Opcodes: class, then size and mode, or operation and source (linux/bpf_common.h, linux/filter.h).
pub(crate) const CLASS_MASK: u16 = 0x07;
pub(crate) const LD: u16 = 0x00;
pub(crate) const ALU: u16 = 0x04;
pub(crate) const JMP: u16 = 0x05;
pub(crate) const RET: u16 = 0x06;
pub(crate) const MISC: u16 = 0x07;
pub(crate) const W: u16 = 0x00;
pub(crate) const ABS: u16 = 0x20;
pub(crate) const LEN: u16 = 0x80;
pub(crate) const K: u16 = 0x00;
pub(crate) const X: u16 = 0x08;
pub(crate) const A: u16 = 0x10;
pub(crate) const ADD: u16 = 0x00;
pub(crate) const SUB: u16 = 0x10;
pub(crate) const DIV: u16 = 0x30;
pub(crate) const RSH: u16 = 0x70;
pub(crate) const MOD: u16 = 0x90;
pub(crate) const MUL: u16 = 0x20;
pub(crate) const XOR: u16 = 0xa0;
pub(crate) const JA: u16 = 0x00;
pub(crate) const JEQ: u16 = 0x10;
pub(crate) const JGT: u16 = 0x20;
pub(crate) const JGE: u16 = 0x30;
pub(crate) const JSET: u16 = 0x40;
pub(crate) const TAX: u16 = 0x00;
pub(crate) const TXA: u16 = 0x80;
/// First load offset that names ancillary data (`SKF_AD_OFF`).
pub(crate) const ANCILLARY_BASE: u32 = -0x1000_i32 as u32;
/// Load offset of the IP header (`SKF_NET_OFF`).
pub(crate) const NETWORK_BASE: u32 = 0xfff0_0000;
const INSTRUCTIONS_MAX: usize = 4096;

#[cfg(test)]
mod tests;
