//! Packet headers as checked views and plain values.
#![no_std]
#![forbid(unsafe_code)]
