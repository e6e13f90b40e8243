//! Contents of a file that its copy lacks.

/// Contents of the inputs that the output lacks. All other contents were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Comments of packets, if the format does not support them.
    pub packet_comments: u64,
    /// Other options of packets, such as the direction, hashes, drop counts, custom options.
    pub packet_options: u64,
    /// Comments and other options of the whole file.
    pub file_options: u64,
    /// Interfaces with names, options or counters that the format does not support.
    pub interfaces: u64,
    /// Statistics blocks of an interface that the file describes later or nowhere.
    pub statistics: u64,
    /// Blocks with names of hosts.
    pub names: u64,
    /// Blocks with secrets for decryption.
    pub secrets: u64,
    /// Custom blocks, and blocks of types that this crate does not know.
    pub other_blocks: u64,
    /// Custom blocks and options whose type forbids copying them into another file.
    pub private: u64,
    /// Blocks and options in the byte order of another machine whose layout is not known here.
    pub untranslated: u64,
    /// Names and secrets that are not in every file of a rotation, because they take too much
    /// memory.
    pub not_repeated: u64,
}

impl Losses {
    /// One sentence for each kind of loss.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let counted = [
            (self.packet_comments, "comment of a packet", "comments of packets"),
            (self.packet_options, "other option of a packet", "other options of packets"),
            (
                self.file_options,
                "comment or option of the file",
                "comments and options of the file",
            ),
            (
                self.interfaces,
                "interface with its name, options and counters",
                "interfaces with their names, options and counters",
            ),
            (self.names, "block of names", "blocks of names"),
            (self.secrets, "block of secrets", "blocks of secrets"),
            (self.other_blocks, "other block", "other blocks"),
        ];
        let counted = counted.iter().filter(|(count, ..)| *count > 0);
        let counted: Vec<_> = counted.map(|(count, one, more)| plural(*count, one, more)).collect();
        let lack = (!counted.is_empty())
            .then(|| format!("not in the output, which pcapng could hold: {}", counted.join(", ")));
        let note = |count: u64, more: &str| {
            (count > 0).then(|| plural(count, "block or option", "blocks and options") + more)
        };
        let private = note(self.private, " not copied: marked so by who wrote them");
        let untranslated =
            note(self.untranslated, " not copied: in the byte order of another machine");
        let repeated = (self.not_repeated > 0).then(|| {
            plural(self.not_repeated, "block", "blocks")
                + " of names or secrets are in one file of the rotation only: they are too large"
        });
        let statistics = (self.statistics > 0).then(|| {
            plural(self.statistics, "block", "blocks")
                + " of counters skipped: of an interface that is not described before"
        });
        [lack, statistics, private, untranslated, repeated].into_iter().flatten().collect()
    }

    /// Only the losses of reading, which matter even if no copy is written.
    #[must_use]
    pub fn of_reading(self) -> Self {
        Self { statistics: self.statistics, ..Self::default() }
    }

    /// Whether nothing was lost.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            packet_comments: self.packet_comments + other.packet_comments,
            packet_options: self.packet_options + other.packet_options,
            file_options: self.file_options + other.file_options,
            interfaces: self.interfaces + other.interfaces,
            statistics: self.statistics + other.statistics,
            names: self.names + other.names,
            secrets: self.secrets + other.secrets,
            other_blocks: self.other_blocks + other.other_blocks,
            private: self.private + other.private,
            untranslated: self.untranslated + other.untranslated,
            not_repeated: self.not_repeated + other.not_repeated,
        }
    }
}

fn plural(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_sentence() {
        assert_eq!(Losses::default().notes(), [""; 0]);
        let lost = Losses { packet_comments: 2, secrets: 1, private: 1, ..Losses::default() };
        assert_eq!(
            lost.notes(),
            [
                "not in the output, which pcapng could hold: 2 comments of packets, 1 block of \
                 secrets",
                "1 block or option not copied: marked so by who wrote them",
            ]
        );
    }
}
