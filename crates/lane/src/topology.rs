//! Where CPUs, memory and NICs are, read from sysfs.
