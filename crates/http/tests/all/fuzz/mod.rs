//! Fuzz harnesses of the parsers that read what the network sends.
//!
//! Under `cargo test` each replays its corpus (`__fuzz__/<module>__<harness>/corpus`) and tries random inputs;
//! `cargo bolero test -p linerate-http <harness>` runs it under libFuzzer. A crash it finds is added to
//! the corpus with the fix.

mod body;
mod path;
mod range;
mod request;

/// Concatenates fragments picked by the bytes of a fuzz input: random bytes seldom look like HTTP.
fn from_fragments(picks: &[u8], fragments: &[&[u8]]) -> Vec<u8> {
    picks.iter().flat_map(|pick| fragments[usize::from(*pick) % fragments.len()]).copied().collect()
}
