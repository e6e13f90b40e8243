//! The C interface from C: the examples as a newcomer compiles them, every function, misuse,
//! threads, and the stable interface. Each program is compiled without a warning, and once under
//! AddressSanitizer.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod examples;
mod interface;
mod program;
