//! Mistyped names of ready queries.

use std::ffi::OsString;
use std::path::Path;

use wirelane::Error;

use super::ready::READY;

/// The largest number of changes to a mistyped name.
const FAR: usize = 2;

/// The error for a missing source: the first word may be a mistyped name.
pub(crate) fn explain(words: &[OsString], error: Error) -> Error {
    let first = words.first().and_then(|word| word.to_str());
    match first.filter(|word| !Path::new(word).exists()) {
        Some(word) => meant(word).map_or(error, |name| unknown(word, name)),
        None => error,
    }
}

/// The name of a ready query that differs from the text by a few letters.
pub(crate) fn meant(text: &str) -> Option<&'static str> {
    let names = READY.iter().map(|ready| ready.name);
    let far = |name: &&str| changes(text, name);
    names.filter(|name| (1..=FAR).contains(&far(name))).min_by_key(far)
}

/// The error for a mistyped name.
pub(crate) fn unknown(text: &str, name: &str) -> Error {
    let cause = format!("there is no ready query of this name; did you mean {name}?");
    Error::usage(text, cause).help("see --list")
}

/// The number of letters to be changed, added or removed (Levenshtein's distance).
fn changes(from: &str, to: &str) -> usize {
    let to: Vec<_> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().take(100).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for at in 0..to.len() {
            let changed = diagonal + usize::from(letter != to[at]);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_known() {
        for (text, name) in [
            ("top-talkrs", Some("top-talkers")),
            ("toptalkers", Some("top-talkers")),
            ("scan", Some("scans")),
            ("timelnie", Some("timeline")),
            ("timeline", None),
            ("flows", None),
            ("trace.pcap", None),
            ("", None),
        ] {
            assert_eq!(meant(text), name, "{text}");
        }
        assert_eq!(changes("kitten", "sitting"), 3);
    }
}
