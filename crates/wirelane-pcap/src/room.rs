//! How much memory is left, as the caller knows it.

use std::fmt;

/// How much more memory the process can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// The limit, for messages: `the machine's memory`.
    pub limit: String,
}

impl Room {
    /// Unlimited memory.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { bytes: u64::MAX, limit: "nothing".to_owned() }
    }

    /// A sentence for users: there is only `had`, and this limit is why.
    pub(crate) fn note(&self, had: impl fmt::Display, wanted: impl fmt::Display) -> String {
        format!("{had} instead of {wanted}: {} allows no more", self.limit)
    }
}
