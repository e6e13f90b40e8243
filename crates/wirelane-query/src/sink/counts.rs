//! Counts of written and lost rows.

use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SinkCounts {
    /// Rows in complete files, or rows that a stream took.
    pub(crate) rows: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Rows without room in the spool, rows not stored at the end, and rows of a failed stream
    /// write.
    pub(crate) lost: u64,
    /// Failed attempts to store a file.
    pub(crate) failures: u64,
    /// The cause of the last failure.
    pub(crate) failure: Option<String>,
}

impl SinkCounts {
    /// `kind` names the rows, such as `flows`.
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
