//! The available memory, as reported by the caller.

use std::fmt;

/// The memory that the process can still allocate.
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

    /// A sentence for users: `had` instead of `wanted`, because of this limit.
    pub(crate) fn note(&self, had: impl fmt::Display, wanted: impl fmt::Display) -> String {
        format!("{had} instead of {wanted}: {} allows no more", self.limit)
    }
}
