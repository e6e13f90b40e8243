//! Parses arbitrary bytes as a frame and as every single header, with the harness of the property
//! tests: no accessor panics, and a parsed header is emitted as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane-wire/tests/walk/mod.rs"]
mod walk;

fuzz_target!(|bytes: &[u8]| walk::walk(bytes));
