//! Header compression (RFC 7541): everything that it has is decoded. What is sent names fields that come again by a table
//! of one kilobyte, and has no Huffman codes: they would cost more than the bytes that they save here.

mod decode;
mod encode;
mod huffman;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use decode::{Decoder, HpackError};
#[cfg(test)]
pub(crate) use encode::unindexed;
pub(crate) use encode::{BlockWriter, Encoder};
