//! Whole sessions against rustls.
