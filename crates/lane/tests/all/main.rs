//! Every test of `lane` that stands outside its sources: one program, so that shared parts are compiled and
//! linked once.

mod files;
mod mesh;
mod operations;
mod real;
mod rooms;
mod sim;
mod sockets;
mod topology;
