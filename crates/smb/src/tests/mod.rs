//! The server in a simulated world, spoken to by our own client and by whoever sends bytes.

mod bed;
mod channels;
mod data;
mod floods;
mod hostile;
mod storms;
mod turns;
