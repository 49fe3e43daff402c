//! The rules of SMB 2 and 3 that need no socket, clock or thread (MS-SMB2 3.1, 3.3.1, 3.3.5.2).
//!
//! - Keys: [`preauth`] hashes what was said before them, [`keys`] derives them, [`signing`] and [`sealing`] use them.
//! - Order: [`window`] says which message ids may come and what credits they bring, [`related`] what the requests of a
//!   compound hand on, [`channel_word`] which of an open's requests come too late.
//! - Tables: [`numbers`] finds sessions, trees, opens and messages by their ids.
//!
//! What a lane does with them is the server's business; none of these holds more than its documentation says.

pub mod channel_word;
pub mod keys;
pub mod numbers;
pub mod preauth;
pub mod related;
pub mod sealing;
pub mod signing;
pub mod window;

mod ccm_parts;
mod gmac;
