//! Names of files that hold one interface each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::pcap::{Source, split_name};
use crate::session::interfaces::Interface;

/// The names of files that hold one interface each.
#[derive(Default)]
pub(super) struct Names(BTreeSet<PathBuf>);

impl Names {
    /// The next one, and no two are the same. What says neither queue nor class has the number by which the port knows it.
    pub(super) fn of(&mut self, path: &Path, interface: &Interface) -> PathBuf {
        let Interface { source, counters } = interface;
        let number = || u32::from(counters.number);
        let queue = match source.class {
            None => Some(source.queue.unwrap_or_else(number)),
            Some(_) => source.queue,
        };
        let source = Source { queue, ..source.clone() };
        let mut name = split_name(path, &source);
        while !self.0.insert(name.clone()) {
            name = split_name(&name, &source);
        }
        name
    }
}
