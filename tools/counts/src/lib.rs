//! Instruction counts of the hot paths: see `benches/instructions`. The library itself is empty.
