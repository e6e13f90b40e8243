//! A capture that runs during a test.

use std::process::Command;

use serde_json::Value;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};

use super::shared::*;

/// A capture that is running; killed when dropped.
pub(crate) struct Running {
    pub(crate) child: ChildGuard,
}

impl Running {
    /// Starts `wirelane capture -q --json` and waits until it receives packets.
    #[track_caller]
    pub(crate) fn start(ns: Option<&Namespace>, args: &[&str]) -> Self {
        let mut running = Self::spawn(ns, args);
        running.wait_until_ready();
        running
    }

    /// Starts it without waiting.
    #[track_caller]
    pub(crate) fn spawn(ns: Option<&Namespace>, args: &[&str]) -> Self {
        let mut command = ns.map_or_else(|| Command::new(WIRELANE), |ns| ns.command(WIRELANE));
        Self { child: ChildGuard::spawn(command.args(["capture", "-q", "--json"]).args(args)) }
    }

    /// Waits until it receives packets: then it answers requests about its masks.
    #[track_caller]
    pub(crate) fn wait_until_ready(&mut self) {
        let pid = self.child.id().to_string();
        let answers = |_: &ChildGuard| output(&mut wirelane(["mask", &pid])).status.success();
        self.child.wait_until(PATIENCE, answers);
    }

    /// Runs `wirelane mask` on it. Returns the output.
    #[track_caller]
    pub(crate) fn mask(&self, args: &[&str]) -> String {
        let output = output(wirelane(["mask", &self.child.id().to_string()]).args(args));
        assert!(output.status.success(), "{}", output.stderr);
        output.stdout
    }

    /// Waits until it has delivered this many packets.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, packets: u64) {
        self.wait_until_statistics(|stats| number(&stats["totals"]["delivered"]) >= packets);
    }

    /// Waits until `holds` accepts the output of `wirelane stats`.
    #[track_caller]
    pub(crate) fn wait_until_statistics(&mut self, holds: impl Fn(&Value) -> bool) {
        let pid = self.child.id().to_string();
        self.child.wait_until(PATIENCE, |_| {
            let said = output(&mut wirelane(["stats", "--json", &pid]));
            said.status.success() && holds(&serde_json::from_str(&said.stdout).unwrap())
        });
    }

    /// Ends it as ^C does. Returns its summary.
    #[track_caller]
    pub(crate) fn finish(self) -> Value {
        self.child.interrupt();
        summary(&self.child.wait(PATIENCE))
    }
}
