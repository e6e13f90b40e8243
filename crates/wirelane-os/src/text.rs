//! Text of others in messages of ours: cut where it is long, and on one line.

use std::borrow::Cow;
use std::fmt;

/// `text`, or its beginning and its end if it is longer than anybody reads: what was given, or
/// sent, may have any length, and what is wrong with it stands before or behind it.
pub fn brief(text: &str) -> Cow<'_, str> {
    // Longer than every message of ours, and than most paths.
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

/// What a user or a file wrote may hold control characters and be long; an error stays on one line
/// that can be read.
pub fn one_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    brief(text).chars().try_for_each(|c| match c.is_control() {
        true => write!(f, "{}", c.escape_default()),
        false => write!(f, "{c}"),
    })
}

/// What every error of ours looks like: `object: cause; help`, on one line.
pub fn sentence(
    f: &mut fmt::Formatter<'_>,
    object: &str,
    cause: &str,
    help: Option<&str>,
) -> fmt::Result {
    one_line(f, object)?;
    f.write_str(": ")?;
    one_line(f, cause)?;
    match help {
        Some(help) => {
            f.write_str("; ")?;
            one_line(f, help)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
