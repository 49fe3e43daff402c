//! Marker of a clean shutdown.

/// Marker of a clean shutdown: 16 random bytes, in memory and in the index, which differ if either was set
/// back.
pub type CleanShutdownMarker = [u8; 16];
