//! Socket features of the kernel, one file per feature.
