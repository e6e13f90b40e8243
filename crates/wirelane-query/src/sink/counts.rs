//! What became of flows.

use serde_json::{Value, json};

/// What was written, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Flows in files that are complete.
    pub(crate) flows: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Flows that found no room while the store was away, or were left at the end.
    pub(crate) lost: u64,
    /// How often the store refused a file.
    pub(crate) failures: u64,
    /// What the last failure was.
    pub(crate) failure: Option<String>,
}

impl Counts {
    pub(crate) fn json(&self, to: &str) -> Value {
        json!({
            "to": to,
            "flows": self.flows,
            "files": self.files,
            "bytes": self.bytes,
            "lost": self.lost,
            "failures": self.failures,
            "last_failure": self.failure,
        })
    }

    pub(crate) fn text(&self, to: &str) -> String {
        let files = if self.files == 1 { "file" } else { "files" };
        let mut text =
            format!("{} flows in {} {files}, {} bytes → {to}", self.flows, self.files, self.bytes);
        if self.lost > 0 {
            text += &format!("; {} flows lost", self.lost);
        }
        text
    }
}
