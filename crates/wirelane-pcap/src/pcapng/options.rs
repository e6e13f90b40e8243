//! Options, the variable part of a block, and their conversion from the other byte order.

use super::blocks::*;
use crate::losses::Losses;
use crate::record::Section;

/// The options in `bytes`, which are in the byte order of this machine, as code and value. Ends at
/// the first option that does not fit.
pub fn options(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, value, after) = first(rest, u16::from_ne_bytes)?;
        rest = after;
        Some((code, value))
    })
}

impl Section {
    /// The comments of the file.
    pub fn comments(&self) -> impl Iterator<Item = &str> {
        let comments = options(&self.options).filter(|(code, _)| *code == OPT_COMMENT);
        comments.filter_map(|(_, text)| std::str::from_utf8(text).ok())
    }

    /// Adds a comment of at most 65,535 bytes. Ignores empty comments and duplicates.
    pub fn add_comment(&mut self, text: &str) {
        if !text.is_empty() && !self.comments().any(|comment| comment == text) {
            put_option(&mut self.options, OPT_COMMENT, text.as_bytes());
        }
    }

    /// Adds the section headers of the files `inputs`, each with its name, for a file with their
    /// packets: comments, the machine if it is the same for all and not known yet, and the
    /// capturing programs.
    pub fn inherit(&mut self, inputs: &[(String, &Self)]) {
        let Some(((_, first), others)) = inputs.split_first() else { return };
        let same =
            |of: fn(&Self) -> &String| others.iter().all(|(_, other)| of(other) == of(first));
        let is_unknown = self.hardware.is_empty() && self.os.is_empty();
        let of_one_machine = is_unknown && same(|one| &one.hardware) && same(|one| &one.os);
        if of_one_machine {
            self.hardware.clone_from(&first.hardware);
            self.os.clone_from(&first.os);
        }
        inputs.iter().for_each(|(_, input)| self.add_options(input));
        for (name, input) in inputs {
            let machine = [&input.os, &input.hardware];
            let machine = machine.into_iter().filter(|text| !of_one_machine && !text.is_empty());
            let application = Some(&input.application);
            let application = application
                .filter(|text| !text.is_empty() && (**text != self.application || !of_one_machine));
            let parts: Vec<_> =
                application.into_iter().chain(machine).map(String::as_str).collect();
            if !parts.is_empty() {
                self.add_comment(&format!("{name}: captured by {}", parts.join(", ")));
            }
        }
    }

    /// The number of fields - machine, system and program - that `other` states differently.
    pub(super) fn differences(&self, other: &Self) -> u64 {
        let named = [
            (&self.hardware, &other.hardware),
            (&self.os, &other.os),
            (&self.application, &other.application),
        ];
        named.iter().filter(|(own, text)| !text.is_empty() && own != text).count() as u64
    }

    /// Adds the options of another section, without duplicates.
    fn add_options(&mut self, other: &Self) {
        for (code, value) in options(&other.options) {
            if !options(&self.options).any(|known| known == (code, value)) {
                put_option(&mut self.options, code, value);
            }
        }
    }
}

/// The number of comments, and the number of other options.
#[cold]
pub(crate) fn count_options(bytes: &[u8]) -> (u64, u64) {
    let comments = options(bytes).filter(|(code, _)| *code == OPT_COMMENT).count() as u64;
    (comments, options(bytes).count() as u64 - comments)
}

/// Summary of a sequence of options in the byte order of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionSummary {
    /// Bytes of the whole options, without the end-of-options option.
    pub(super) len: usize,
    /// The flags of a packet.
    pub(super) flags: Option<u32>,
    /// One of them must not be copied.
    pub(super) has_private: bool,
}

/// Examines all options of a packet once.
pub(super) fn survey(bytes: &[u8]) -> OptionSummary {
    let mut survey = OptionSummary::default();
    let mut rest = bytes;
    while let Some((code, value, after)) = first(rest, u16::from_ne_bytes) {
        match code {
            EPB_FLAGS => survey.flags = value.first_chunk().map(|flags| u32::from_ne_bytes(*flags)),
            _ => survey.has_private |= is_private(code),
        }
        // The padding of the last option may be missing.
        if bytes.len() - after.len() < survey.len + 4 + value.len().next_multiple_of(4) {
            break;
        }
        survey.len = bytes.len() - after.len();
        rest = after;
    }
    survey
}

/// The type of block that options belong to: it determines which options are numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Packet,
    Interface,
    /// A block without numbers in its options.
    Text,
}

/// Appends the options in `bytes` that `takes` accepts to `out`, in the byte order of this machine,
/// without the end-of-options option. Counts options that must not or cannot be copied.
pub(super) fn copy(
    of: Of,
    is_swapped: bool,
    bytes: &[u8],
    out: &mut Vec<u8>,
    lost: &mut Losses,
    takes: impl Fn(u16, &[u8]) -> bool,
) {
    let number = |bytes| {
        let number = u16::from_ne_bytes(bytes);
        if is_swapped { number.swap_bytes() } else { number }
    };
    let mut rest = bytes;
    while let Some((code, value, after)) = first(rest, number) {
        rest = after;
        if !takes(code, value) {
            continue;
        }
        if is_private(code) {
            lost.private += 1;
        } else if is_swapped && code == CUSTOM_BINARY {
            lost.untranslated += 1;
        } else {
            put_option(out, code, value);
            let start = out.len() - value.len().next_multiple_of(4);
            if is_swapped && let Some(value) = out.get_mut(start..start + value.len()) {
                turn(of, code, value);
            }
        }
    }
}

/// The encoded option of a comment; of an empty one, nothing.
pub(crate) fn comment(text: &str) -> Vec<u8> {
    let mut option = Vec::new();
    if !text.is_empty() {
        put_option(&mut option, OPT_COMMENT, text.as_bytes());
    }
    option
}

/// Appends one option. A value that is too long for the format is truncated.
pub(super) fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
    out.extend_from_slice(&code.to_ne_bytes());
    out.extend_from_slice(&(value.len() as u16).to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len() + (value.len().wrapping_neg() & 3), 0);
}

/// Code and value of the first option in `bytes`, and the bytes after it.
#[inline]
pub(super) fn first(bytes: &[u8], number: impl Fn([u8; 2]) -> u16) -> Option<(u16, &[u8], &[u8])> {
    let (&[a, b, c, d], rest) = bytes.split_first_chunk::<4>()?;
    let (code, len) = (number([a, b]), usize::from(number([c, d])));
    let value = rest.get(..len)?;
    let after = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    (code != OPT_END).then_some((code, value, after))
}

/// Custom options whose code forbids copying them into a changed file.
fn is_private(code: u16) -> bool {
    matches!(code, CUSTOM_PRIVATE_TEXT | CUSTOM_PRIVATE_BINARY)
}

/// Converts the numbers in a value to the other byte order. Hashes are byte strings.
fn turn(of: Of, code: u16, value: &mut [u8]) {
    let (skipped, widths): (usize, &[usize]) = match (of, code) {
        (_, CUSTOM_TEXT) => (0, &[4]),
        (Of::Packet, EPB_FLAGS | EPB_QUEUE) => (0, &[4]),
        (Of::Packet, EPB_DROPCOUNT | EPB_PACKETID) => (0, &[8]),
        (Of::Packet, EPB_PROCESS) => (0, &[4, 4]),
        // The 64-bit result of an eBPF program (TC or XDP); other verdicts are bytes.
        (Of::Packet, EPB_VERDICT) if matches!(value.first(), Some(1 | 2)) => (1, &[8]),
        (Of::Interface, IF_TZONE) => (0, &[4]),
        (Of::Interface, IF_SPEED | IF_TXSPEED | IF_RXSPEED) => (0, &[8]),
        _ => (0, &[]),
    };
    let mut at = skipped;
    for width in widths {
        let Some(number) = value.get_mut(at..at + width) else { return };
        number.reverse();
        at += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_turned_and_text_is_not() {
        let mut theirs = Vec::new();
        for (code, value) in [
            (EPB_FLAGS, &[0, 0, 0, 1][..]),
            (OPT_COMMENT, b"abc"),
            (EPB_DROPCOUNT, &[0, 0, 0, 0, 0, 0, 0, 9]),
            (EPB_VERDICT, &[1, 0, 0, 0, 0, 0, 0, 0, 7]),
            (CUSTOM_TEXT, &[0, 0, 1, 2, b'x']),
            (CUSTOM_BINARY, &[0, 0, 1, 2, 3]),
            (CUSTOM_PRIVATE_TEXT, &[0, 0, 1, 2, b'y']),
        ] {
            theirs.extend_from_slice(&code.swap_bytes().to_ne_bytes());
            theirs.extend_from_slice(&(value.len() as u16).swap_bytes().to_ne_bytes());
            theirs.extend_from_slice(value);
            theirs.resize(theirs.len().next_multiple_of(4), 0);
        }
        let (mut ours, mut lost) = (Vec::new(), Losses::default());
        copy(Of::Packet, true, &theirs, &mut ours, &mut lost, |_, _| true);
        let found: Vec<_> = options(&ours).collect();
        let expected: [(u16, &[u8]); 5] = [
            (EPB_FLAGS, &[1, 0, 0, 0]),
            (OPT_COMMENT, b"abc"),
            (EPB_DROPCOUNT, &[9, 0, 0, 0, 0, 0, 0, 0]),
            (EPB_VERDICT, &[1, 7, 0, 0, 0, 0, 0, 0, 0]),
            (CUSTOM_TEXT, &[2, 1, 0, 0, b'x']),
        ];
        assert_eq!(found, expected);
        assert_eq!((lost.private, lost.untranslated), (1, 1));
        let found = survey(&ours);
        assert_eq!((found.len, found.has_private), (ours.len(), false));
    }

    #[test]
    fn a_cut_option_ends_them() {
        let mut bytes = Vec::new();
        put_option(&mut bytes, OPT_COMMENT, b"whole");
        let whole = bytes.len();
        put_option(&mut bytes, CUSTOM_PRIVATE_BINARY, b"12345");
        for len in 0..bytes.len() {
            let found = survey(bytes.get(..len).unwrap());
            assert_eq!(found.len, if len < whole { 0 } else { whole }, "{len}");
        }
        assert_eq!(survey(&bytes).len, bytes.len());
        assert!(survey(&bytes).has_private);
    }
}
