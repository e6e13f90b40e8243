//! The table of known failures: each row names the fault that explains it.
//!
//! The author of a fix removes its rows: a cell that passes in spite of a row is a failure.

use crate::commands::COMMANDS;
use crate::forms::FORMS;
use crate::ports::PORTS;
use crate::traffic::TRAFFIC;

/// A row: each of these commands fails for each row of this traffic. An empty list means all.
pub(crate) struct Pending {
    pub(crate) fault: u32,
    pub(crate) path: &'static str,
    pub(crate) commands: &'static [&'static str],
    pub(crate) traffic: &'static [&'static str],
}

pub(crate) const PENDING: &[Pending] = &[
    // One table takes the packets queue by queue instead of in order of time, and judges sequence
    // numbers in that order.
    Pending { fault: 2, path: "--single", commands: &["flows"], traffic: &["sent again"] },
];

/// The fault that explains why this fails.
pub(crate) fn fault(path: &str, traffic: &str, command: &str) -> Option<u32> {
    let explains = |row: &&Pending| {
        let names = |names: &[&str], name| names.is_empty() || names.contains(&name);
        row.path == path && names(row.commands, command) && names(row.traffic, traffic)
    };
    PENDING.iter().find(explains).map(|row| row.fault)
}

/// A row with a wrong name would explain nothing.
#[test]
fn every_row_names_cells() {
    let paths: Vec<_> =
        FORMS.iter().map(|form| form.name).chain(PORTS.iter().map(|port| port.name)).collect();
    for row in PENDING {
        assert!(paths.contains(&row.path), "{}", row.path);
        for name in row.commands {
            assert!(COMMANDS.iter().any(|command| command.name == *name), "{name}");
        }
        for name in row.traffic {
            assert!(TRAFFIC.iter().any(|traffic| traffic.name == *name), "{name}");
        }
    }
}
