//! Handles of one pipe. They hold nothing: a client with one has been let in.

use crate::pdu::Fault;

/// Open handles of one pipe.
pub(crate) const HANDLES_MAX: usize = 64;

/// Open handles of a pipe.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: Vec<u64>,
    last: u64,
}

impl Handles {
    /// Opens one; `None`: there are too many.
    pub(crate) fn open(&mut self) -> Option<[u8; 20]> {
        if self.open.len() == HANDLES_MAX {
            return None;
        }
        self.last += 1;
        self.open.push(self.last);
        let mut handle = [0; 20];
        handle[4..12].copy_from_slice(&self.last.to_le_bytes());
        Some(handle)
    }

    /// Checks that it is one of the handles.
    pub(crate) fn check(&self, handle: &[u8; 20]) -> Result<(), Fault> {
        self.find(handle).map(drop).ok_or(Fault::NO_SUCH_HANDLE)
    }

    pub(crate) fn close(&mut self, handle: &[u8; 20]) -> Result<(), Fault> {
        let index = self.find(handle).ok_or(Fault::NO_SUCH_HANDLE)?;
        self.open.swap_remove(index);
        Ok(())
    }

    fn find(&self, handle: &[u8; 20]) -> Option<usize> {
        let number = u64::from_le_bytes(handle[4..12].try_into().expect("eight"));
        let is_ours = handle[..4] == [0; 4] && handle[12..] == [0; 8];
        self.open.iter().position(|open| is_ours && *open == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_bounded_and_none_comes_twice() {
        let mut handles = Handles::default();
        let all: Vec<_> = std::iter::from_fn(|| handles.open()).collect();
        assert_eq!(all.len(), HANDLES_MAX);
        handles.close(&all[3]).unwrap();
        assert_eq!(handles.close(&all[3]), Err(Fault::NO_SUCH_HANDLE));
        assert_eq!(handles.check(&all[3]), Err(Fault::NO_SUCH_HANDLE));
        let again = handles.open().unwrap();
        assert!(!all.contains(&again) && handles.check(&again).is_ok());
        assert_eq!(handles.check(&[0; 20]), Err(Fault::NO_SUCH_HANDLE));
        let mut other = again;
        other[19] = 1;
        assert_eq!(handles.check(&other), Err(Fault::NO_SUCH_HANDLE));
    }
}
