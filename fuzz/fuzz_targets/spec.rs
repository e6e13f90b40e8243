//! Takes arbitrary text for a port: it is parsed or refused, and what is parsed is written again as
//! a text that means the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane::port::Spec;

fuzz_target!(|text: &str| {
    match text.parse::<Spec>() {
        Ok(spec) => {
            let again = spec.to_string().parse::<Spec>().expect("what was written is parsed");
            assert_eq!(again, spec);
        }
        // An error is one line, whatever the text holds.
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
});
