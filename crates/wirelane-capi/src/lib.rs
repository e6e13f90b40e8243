//! `libwirelane`: the C interface.
