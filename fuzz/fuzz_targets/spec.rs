//! Parses arbitrary text as a port. An accepted text prints as a text with the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane::port::Spec;

fuzz_target!(|text: &str| {
    match text.parse::<Spec>() {
        Ok(spec) => {
            let again = spec.to_string().parse::<Spec>().expect("what was written is parsed");
            assert_eq!(again, spec);
        }
        // An error is one line for any text.
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
});
