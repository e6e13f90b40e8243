//! The names of ports in files, and of files that contain one interface each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::pcap::{Source, split_name};
use crate::port::{PortInfo, tell_apart};
use crate::session::interfaces::Interface;

/// The interface names of ports without an interface.
pub(super) fn titles<'a>(ports: impl Iterator<Item = &'a PortInfo>) -> Vec<String> {
    tell_apart(ports.map(|port| port.backend.as_str().to_owned()).collect())
}

/// The names of files that contain one interface each.
pub(super) struct Names {
    known: BTreeSet<PathBuf>,
    /// The interfaces belong to several ports.
    several: bool,
}

impl Names {
    pub(super) fn new(several: bool) -> Self {
        Self { known: BTreeSet::new(), several }
    }

    /// The next name; all names differ. An interface with neither queue nor class gets its number
    /// at the port.
    pub(super) fn of(&mut self, path: &Path, interface: &Interface) -> PathBuf {
        let Interface { source, counters } = interface;
        let number = || u32::from(counters.number);
        let queue = match source.class {
            None => Some(source.queue.unwrap_or_else(number)),
            Some(_) => source.queue,
        };
        let source = Source { queue, ..source.clone() };
        let mut name = split_name(path, self.several.then_some(source.name.as_str()), &source);
        while !self.known.insert(name.clone()) {
            name = split_name(&name, None, &source);
        }
        name
    }
}
