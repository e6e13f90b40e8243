//! Takes arbitrary bytes for captured packets: whatever they are, the auditor does not panic, and
//! its counters are what it has said.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane/tests/segment/audit.rs"]
mod audit;

fuzz_target!(|bytes: &[u8]| audit::run(bytes));
