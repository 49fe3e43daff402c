//! One tree over AFS, SMB and HTTP in a simulated world: clients that cache by callbacks, leases and entity tags, while each of them
//! writes. A failing seed prints the line that repeats it.

mod browser;
mod cache_manager;
mod checker;
mod histories;
mod life;
mod order;
mod redirector;
mod server;
mod shared;
mod simulated;
mod truth;
