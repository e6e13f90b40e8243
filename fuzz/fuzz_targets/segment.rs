//! Segments an arbitrary frame with arbitrary metadata: packets fit the MTU and keep all bytes.
//! Merged and segmented again, the packets are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane/tests/segment/harness.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| harness::run(bytes));
