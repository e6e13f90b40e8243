//! Takes arbitrary bytes for a frame and what is to be done to it: cut, no packet is longer than
//! the MTU and no byte is lost; merged again and cut again, the packets are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane/tests/segment/harness.rs"]
mod harness;

fuzz_target!(|bytes: &[u8]| harness::run(bytes));
