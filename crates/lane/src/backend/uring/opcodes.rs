//! Operations of the running kernel's ring, asked once when the ring is made (`io_uring_register(2)`,
//! IORING_REGISTER_PROBE).

use io_uring::{Probe, Submitter};

use super::setup::FileOperations;

/// Record of the operations that a ring has.
pub(super) struct Opcodes {
    probe: Option<Probe>,
    file_operations: FileOperations,
}

impl Opcodes {
    /// Returns the operations of this ring. A ring that cannot be asked has none but those that every lane
    /// needs.
    pub(super) fn of(ring: &Submitter<'_>, file_operations: FileOperations) -> Self {
        let mut probe = Probe::new();
        let asked = ring.register_probe(&mut probe);
        Self { probe: asked.is_ok().then_some(probe), file_operations }
    }

    /// Returns whether an operation on names, attributes or lengths may go to the ring.
    pub(super) fn has(&self, opcode: u32) -> bool {
        let Ok(opcode) = u8::try_from(opcode) else { return false };
        match self.file_operations {
            FileOperations::Helpers => false,
            FileOperations::Ring => self.probe.as_ref().is_some_and(|probe| probe.is_supported(opcode)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::{IoUring, opcode};

    #[test]
    fn what_linux_has_had_since_5_15_is_known_and_nothing_that_does_not_exist() {
        let ring = IoUring::new(8).unwrap();
        let opcodes = Opcodes::of(&ring.submitter(), FileOperations::Ring);
        assert!(opcodes.has(opcode::MkDirAt::CODE.into()) && opcodes.has(opcode::RenameAt::CODE.into()));
        assert!(!opcodes.has(255) && !opcodes.has(1 << 20));
        assert!(!Opcodes::of(&ring.submitter(), FileOperations::Helpers).has(opcode::MkDirAt::CODE.into()));
    }
}
