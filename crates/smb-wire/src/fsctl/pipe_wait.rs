//! FSCTL_PIPE_WAIT (MS-FSCC 2.3.49): whether a pipe can be opened, or when.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{I64, U32};

use crate::fixed::{part, prefix, wire};
use crate::malformed::Malformed;
use crate::text::{Text, encoded};

wire! {
    /// Fixed part before the name, MS-FSCC 2.3.49.
    pub struct PipeWaitFixed {
        /// Longest wait, in units of 100 ms.
        timeout: I64,
        name_length: U32,
        timeout_specified: u8,
        padding: u8,
    }
}

/// Parses the name that the input names, as CREATE on `IPC$` has it.
pub fn parse(input: &[u8]) -> Result<Text<'_>, Malformed> {
    let (fixed, rest) = prefix::<PipeWaitFixed>(input)?;
    Text::new(part(rest, 0, fixed.name_length.get() as usize)?)
}

/// Creates an input that names a pipe and waits for ever.
pub fn to_bytes(name: &str) -> Vec<u8> {
    let name = encoded(name);
    let name_length = u32::try_from(name.len()).expect("a pipe's name is short").into();
    let fixed = PipeWaitFixed { timeout: I64::ZERO, name_length, timeout_specified: 0, padding: 0 };
    [fixed.as_bytes(), &name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_where_the_specification_puts_it_and_no_further_than_the_input() {
        let mut input = to_bytes("lsarpc");
        assert_eq!(input.len(), 14 + 12);
        assert_eq!(parse(&input).unwrap().decode().unwrap(), "lsarpc");
        input[8] = 11;
        assert_eq!(parse(&input), Err(Malformed::OddText));
        input[8] = 14;
        assert_eq!(parse(&input), Err(Malformed::Offset));
        input[8..12].fill(0xff);
        assert_eq!(parse(&input), Err(Malformed::Offset));
        assert_eq!(parse(&input[..13]), Err(Malformed::Short));
    }
}
