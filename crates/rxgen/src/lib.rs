//! rxgen.
