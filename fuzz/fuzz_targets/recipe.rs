//! Parses arbitrary text as a packet. An accepted text prints as a text with the same meaning. A
//! cursor writes the same packets as direct calls.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_gen::{Recipe, Sizes};

fuzz_target!(|text: &str| {
    // Sizes, a line break, and the packet.
    let (sizes, text) = text.split_once('\n').unwrap_or(("64", text));
    let recipe = match text.parse::<Recipe>() {
        Ok(recipe) => recipe,
        // An error is one line for any text.
        Err(error) => return assert_eq!(error.to_string().lines().count(), 1),
    };
    let again = recipe.to_string().parse::<Recipe>().expect("what was written is parsed");
    assert_eq!(again, recipe);
    let Ok(template) = recipe.compile(18) else {
        return;
    };
    let sizes = sizes.parse::<Sizes>().unwrap_or(Sizes::Imix);
    assert_eq!(sizes.to_string().parse(), Ok(sizes.clone()));
    let lengths = match sizes.lengths(template.min_len()) {
        Ok(lengths) => lengths,
        Err(_) => Sizes::fixed(template.min_len() as u16).lengths(0).expect("one size"),
    };
    let mut cursor = template.cursor(1, 3);
    for k in [1, 4, 7] {
        let (mut one, mut other) = (vec![0xa5; lengths.at(k)], vec![0x5a; lengths.at(k)]);
        cursor.write(&template, &mut one);
        template.write(k, &mut other);
        assert_eq!(one, other);
    }
});
