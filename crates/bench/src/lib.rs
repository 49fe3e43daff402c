//! Load generators.
