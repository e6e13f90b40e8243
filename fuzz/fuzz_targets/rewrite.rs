//! Rewrites arbitrary bytes with rules that the first bytes choose, with the harness of the
//! property tests: no rule panics, and lossless rules can be undone.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane-gen/tests/rewrite/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|bytes: &[u8]| any_bytes::run(bytes));
