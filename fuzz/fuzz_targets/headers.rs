//! Takes arbitrary bytes for a frame and for every single header, with the harness of the property
//! tests: no accessor panics, and what is parsed is emitted again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane-wire/tests/walk/mod.rs"]
mod walk;

fuzz_target!(|bytes: &[u8]| walk::walk(bytes));
