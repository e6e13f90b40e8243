//! The words of `wirelane capture`: ports, then a filter.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use wirelane::port::{Backend, Offloads, Spec};
use wirelane::{Error, Result};

/// What they say.
pub(super) struct Words {
    /// Ports, in their order.
    pub(super) ports: Vec<Spec>,
    /// The filter, if there is one.
    pub(super) filter: Option<String>,
}

impl Words {
    /// The first word is a port; so are those after it that name one. The rest is a filter. If a file is `read`, it is
    /// the port, and all words are a filter.
    ///
    /// # Errors
    /// The filter is not UTF-8, or what should be a port is none.
    pub(super) fn split(words: &[OsString], read: Option<&Path>) -> Result<Self> {
        let more = words.iter().skip(1).take_while(|word| names_port(word)).count();
        let ports = if read.is_some() { 0 } else { words.len().min(1 + more) };
        let (ports, filter) = words.split_at(ports);
        let ports = ports.iter().map(|word| Spec::try_from(word.as_os_str()));
        let ports = read.map(file).into_iter().map(Ok).chain(ports).collect::<Result<_>>()?;
        let texts: Option<Vec<_>> = filter.iter().map(|word| word.to_str()).collect();
        let filter = texts.ok_or_else(|| Error::usage("filter", "it is not UTF-8"))?;
        let filter = (!filter.is_empty()).then(|| filter.join(" "));
        Ok(Self { ports, filter })
    }
}

/// The port of a file, whatever its name.
fn file(path: &Path) -> Spec {
    Spec {
        backend: Some(Backend::File),
        name: path.into(),
        queues: None,
        options: Vec::new(),
        offloads: Offloads::default(),
    }
}

/// Whether a word is meant to be a port.
fn names_port(word: &OsStr) -> bool {
    Spec::try_from(word).is_ok_and(|spec| spec.backend.is_some())
}
