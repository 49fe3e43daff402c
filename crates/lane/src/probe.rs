//! What the kernel, limits and NICs of this machine give.
