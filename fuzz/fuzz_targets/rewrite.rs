//! Rewrites arbitrary bytes by rules that the first of them choose, with the harness of the
//! property tests: nothing panics, and what loses nothing leads back.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wirelane-gen/tests/rewrite/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|bytes: &[u8]| any_bytes::run(bytes));
