//! sim: the file server's procedures, each with what it refuses, by clients with callback services of their own.

mod audit;
mod bed;
mod changes;
mod data;
mod dir_page_versions;
mod directories;
mod lives;
mod refused;
mod rights;
mod roots;
mod silent;
mod status;
