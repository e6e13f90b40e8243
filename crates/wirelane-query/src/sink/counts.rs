//! What became of rows.

use serde_json::{Value, json};

/// What was written, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Rows in files that are complete, or that a stream took.
    pub(crate) rows: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Rows that found no room while the store was away, or were left at the end.
    pub(crate) lost: u64,
    /// How often the store refused a file.
    pub(crate) failures: u64,
    /// What the last failure was.
    pub(crate) failure: Option<String>,
}

impl Counts {
    /// `kind` is what rows are of, as in `flows`.
    pub(crate) fn json(&self, kind: &str, to: &str) -> Value {
        json!({
            "to": to,
            kind: self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "lost": self.lost,
            "failures": self.failures,
            "last_failure": self.failure,
        })
    }

    pub(crate) fn text(&self, kind: &str, to: &str) -> String {
        let files = if self.files == 1 { "file" } else { "files" };
        let mut text = match to {
            "-" => format!("{} {kind} → standard output, {} bytes", self.rows, self.bytes),
            _ => format!(
                "{} {kind} in {} {files}, {} bytes → {to}",
                self.rows, self.files, self.bytes
            ),
        };
        if self.lost > 0 {
            text += &format!("; {} {kind} lost", self.lost);
        }
        text
    }
}
