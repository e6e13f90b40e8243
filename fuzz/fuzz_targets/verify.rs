//! Audits arbitrary bytes as captured packets: the auditor does not panic, and its counters match
//! its findings.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane/tests/segment/audit.rs"]
mod audit;

fuzz_target!(|bytes: &[u8]| audit::run(bytes));
