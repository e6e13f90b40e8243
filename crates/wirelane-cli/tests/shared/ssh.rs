//! A namespace with an interface that an SSH connection of the user arrives at.

use std::process::Command;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::Output;
use wirelane_testkit::veth::VethPair;

use super::shared::*;

/// A pair of interfaces; the first one has the address of the connection.
pub(crate) struct Session {
    pub(crate) pair: VethPair,
    ns: Namespace,
}

impl Session {
    pub(crate) fn new() -> Self {
        let ns = Namespace::new();
        let pair = VethPair::new(&ns, &ns, 1, 1500);
        let own = &pair.a.interface;
        ns.run("ip", ["address", "flush", "dev", own]);
        ns.run("ip", ["address", "add", "10.97.0.1/24", "dev", own]);
        Self { pair, ns }
    }

    /// `wirelane`, started by the user of the connection.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.ns.command(WIRELANE);
        command.env("SSH_CONNECTION", "10.97.0.2 50022 10.97.0.1 22");
        command
    }

    /// The command names the interface and the connection, and does nothing.
    #[track_caller]
    pub(crate) fn assert_refused(&self, ended: &Output) {
        let own = self.pair.a.interface.as_str();
        let parts = [own, "your own SSH connection, 10.97.0.2:50022", "--yes"];
        assert_refused(ended, 2, &parts);
    }
}
