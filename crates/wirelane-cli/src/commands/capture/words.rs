//! The words of `wirelane capture`: ports, then a filter.

use std::ffi::{OsStr, OsString};

use wirelane::port::Spec;
use wirelane::{Error, Result};

/// What they say.
pub(super) struct Words {
    /// Ports, in their order.
    pub(super) ports: Vec<OsString>,
    /// The filter, if there is one.
    pub(super) filter: Option<String>,
}

impl Words {
    /// The first word is a port; so are those after it that name one. The rest is a filter.
    ///
    /// # Errors
    /// The filter is not UTF-8.
    pub(super) fn split(words: &[OsString]) -> Result<Self> {
        let more = words.iter().skip(1).take_while(|word| names_port(word)).count();
        let (ports, filter) = words.split_at(words.len().min(1 + more));
        let texts: Option<Vec<_>> = filter.iter().map(|word| word.to_str()).collect();
        let filter = texts.ok_or_else(|| Error::usage("filter", "it is not UTF-8"))?;
        let filter = (!filter.is_empty()).then(|| filter.join(" "));
        Ok(Self { ports: ports.to_vec(), filter })
    }
}

/// Whether a word is meant to be a port.
fn names_port(word: &OsStr) -> bool {
    Spec::try_from(word).is_ok_and(|spec| spec.backend.is_some())
}
