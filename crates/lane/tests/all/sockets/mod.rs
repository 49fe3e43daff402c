//! Tests of socket features on real sockets: over loopback, and over two NICs between network namespaces.

mod group;
mod netns;
mod udp;
