//! Untrusted text in messages: on one line, cut if long, and without characters that control a
//! terminal. [`is_hostile`] defines those characters.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// Whether this character could mislead a terminal or its reader: it moves the cursor, changes
/// colours or titles, ends a line, reorders the surrounding text, or is invisible.
#[must_use]
pub fn is_hostile(c: char) -> bool {
    // UAX #9, table of directional formatting characters; line and paragraph separators.
    let misleads = matches!(
        c,
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{206F}'
    );
    // Others of Unicode's Default_Ignorable_Code_Point that no script needs in names; tags.
    let is_invisible = matches!(
        c,
        '\u{00AD}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200D}'
            | '\u{2060}'..='\u{2065}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E0FFF}'
    );
    c.is_control() || misleads || is_invisible
}

/// Untrusted text for users, on one line, with a question mark for each hostile character.
#[must_use]
pub fn printable(text: &str) -> String {
    text.replace(is_hostile, "?")
}

/// A character of untrusted text for users: the escape sequence of a hostile character, other
/// characters unchanged.
pub fn escaped(c: char) -> impl Iterator<Item = char> {
    let escape = is_hostile(c).then(|| c.escape_default());
    let itself = escape.is_none().then_some(c);
    escape.into_iter().flatten().chain(itself)
}

/// As [`printable`], for lines of this project that contain untrusted text.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| is_hostile(c) && !matches!(c, '\n' | '\t');
    match text.contains(is_bad) {
        false => text.into(),
        true => text.replace(is_bad, "?").into(),
    }
}

/// A JSON document with the same content, whose only hostile characters are line feeds. A JSON
/// writer escapes only some of them; the others are always inside strings.
#[must_use]
pub fn printable_json(text: String) -> String {
    if text.is_ascii() {
        return text;
    }
    let escaped = |c: char| match c.is_ascii() || !is_hostile(c) {
        true => c.to_string(),
        false => c.encode_utf16(&mut [0; 2]).iter().map(|it| format!("\\u{it:04x}")).collect(),
    };
    text.chars().map(escaped).collect()
}

/// `text`, or its beginning and end if it is very long. User input and received text may have any
/// length, and the error is explained before or after it.
pub fn brief(text: &str) -> Cow<'_, str> {
    // Longer than every message of this project, and than most paths.
    const LONGEST: usize = 1200;
    const ENDS: usize = 200;
    let count = text.chars().count();
    if count <= LONGEST {
        return text.into();
    }
    let at = |number| text.char_indices().nth(number).map_or(text.len(), |(at, _)| at);
    let (begin, end) = (&text[..at(ENDS)], &text[at(count - ENDS)..]);
    format!("{begin} [{} more characters] {end}", count - 2 * ENDS).into()
}

/// Text of a user or a file, which may contain control characters and be long, so that an error
/// stays on one readable line.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    brief(text).chars().flat_map(escaped).collect()
}

/// The format of every error of this project: `object: cause; help`, on one line.
pub fn sentence(
    f: &mut fmt::Formatter<'_>,
    object: &str,
    cause: &str,
    help: Option<&str>,
) -> fmt::Result {
    write!(f, "{}: {}", on_one_line(object), on_one_line(cause))?;
    match help {
        Some(help) => write!(f, "; {}", on_one_line(help)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_not_passed_on() {
        for c in '\0'..=char::MAX {
            let safe = !is_hostile(c);
            assert_eq!(printable(&c.to_string()) == c.to_string(), safe, "{c:?}");
            assert!(!c.is_control() || !safe, "{c:?}");
        }
        for c in ['\u{1b}', '\u{9b}', '\r', '\n', '\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}'] {
            assert!(is_hostile(c), "{c:?}");
        }
        let invisible = "\u{ad}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{2060}\u{2064}\u{feff}\u{e0000}\u{e0041}";
        for c in invisible.chars() {
            assert!(is_hostile(c), "{c:?}");
        }
        for c in "aä漢字😀א־ع\u{301}".chars() {
            assert!(!is_hostile(c), "{c:?}");
        }
        assert_eq!(printable_lines("a\tb\nc\u{1b}d\u{202e}"), "a\tb\nc?d?");
        assert_eq!(
            printable_json("{\"ä\":\"\u{9b}\u{2066}\u{e0041}\"}\n".into()),
            "{\"ä\":\"\\u009b\\u2066\\udb40\\udc41\"}\n"
        );
    }

    #[test]
    fn what_is_long_is_cut_in_its_middle() {
        assert!(matches!(brief(&"é".repeat(1200)), Cow::Borrowed(_)));
        let text = format!("begin{}end", "é".repeat(100_000));
        let cut = brief(&text);
        assert!(cut.starts_with("beginé") && cut.ends_with("éend"), "{cut}");
        assert!(cut.contains("é [99608 more characters] é"), "{cut}");
        assert_eq!(cut.chars().count(), 425);
    }
}
