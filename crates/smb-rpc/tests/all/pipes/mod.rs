//! Pipes as a client uses them, message by message.

mod calls;
mod messages;
pub(crate) mod world;
