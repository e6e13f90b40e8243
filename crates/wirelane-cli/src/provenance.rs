//! Metadata of a capture file: the program, machine and command line that made it.

use std::fmt::Write as _;

use wirelane::pcap::{FileFormat, Section, WriterOptions};
use wirelane::{QueueMask, QueueSet};
use wirelane_os::machine;

use crate::args::CommentArgs;
use crate::output::printable;

/// The selection of a capture.
pub(crate) struct Provenance<'a> {
    pub(crate) filter: Option<&'a str>,
    pub(crate) mask: &'a QueueMask,
    /// Whether packets are captured live; false for packets of a file.
    pub(crate) is_live: bool,
}

impl Provenance<'_> {
    /// Adds metadata to the options of a file, as dumpcap does: hardware, operating system, and
    /// comments with the command line. A pcap file cannot hold them.
    pub(crate) fn add_to(&self, options: &mut WriterOptions, comments: &CommentArgs) {
        comments.add_to(&mut options.section);
        if options.format == FileFormat::Pcapng {
            self.describe(&mut options.section);
        }
    }

    /// Adds the metadata to the section of a store's files.
    pub(crate) fn describe(&self, section: &mut Section) {
        if !self.is_live {
            return;
        }
        section.hardware = machine::cpu_model().unwrap_or_default();
        section.os = machine::system();
        section.add_comment(&self.sentence(std::env::args_os().map(|word| {
            let word = word.to_string_lossy().into_owned();
            quoted(&printable(&word))
        })));
    }

    /// `wirelane 0.1.0 on host: wirelane capture eth0 udp -w t.pcapng; filter: udp`.
    fn sentence(&self, words: impl Iterator<Item = String>) -> String {
        let (version, host) = (env!("CARGO_PKG_VERSION"), machine::host());
        let words: Vec<_> = words.collect();
        let mut text = format!("wirelane {version} on {host}: {}", words.join(" "));
        // Writing to a string cannot fail.
        if let Some(filter) = self.filter {
            let _ = write!(text, "; filter: {}", printable(filter.trim()));
        }
        for (class, queues) in [("RX", &self.mask.rx), ("TX", &self.mask.tx)] {
            if *queues != QueueSet::All {
                let _ = write!(text, "; {class} queues: {queues}");
            }
        }
        if !self.mask.other {
            text += "; other packets: off";
        }
        let end = text.floor_char_boundary(usize::from(u16::MAX));
        text.truncate(end);
        text
    }
}

/// A word of a command line, quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@=,+%?".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_what_was_running() {
        let mask = QueueMask { rx: "0-2".parse().unwrap(), other: false, ..QueueMask::ALL };
        let provenance = Provenance { filter: Some("tcp port 80"), mask: &mask, is_live: true };
        let words = ["wirelane", "capture", "eth0", "it's", ""].map(quoted);
        let text = provenance.sentence(words.into_iter());
        let (before, text) = text.split_once(": ").unwrap();
        assert_eq!(
            before,
            format!("wirelane {} on {}", env!("CARGO_PKG_VERSION"), machine::host())
        );
        let expected = "wirelane capture eth0 'it'\\''s' ''; filter: tcp port 80; RX queues: 0-2; \
                        other packets: off";
        assert_eq!(text, expected);
        let long = provenance.sentence(["ä".repeat(70_000)].into_iter());
        assert!(long.len() <= 65_535 && long.len() > 65_530);
    }
}
