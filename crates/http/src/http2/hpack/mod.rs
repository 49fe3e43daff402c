//! Header compression (RFC 7541): everything that it has is decoded; what is sent uses the static table alone, so that
//! this side keeps no table and two connections' heads of one file are the same bytes.

mod decode;
mod encode;
mod huffman;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Decoder, HpackError};
#[cfg(test)]
pub(crate) use encode::unindexed;
pub(crate) use encode::{Encoder, field, status};
