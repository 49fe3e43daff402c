//! XDR.
