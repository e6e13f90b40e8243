//! Hosts at a switch.
//!
//! ```text
//!   host 0 ══ veth ══╗
//!   host 1 ══ veth ══╬═ bridge (br0)
//!   host 2 ══ veth ══╝
//! ```

use std::net::Ipv4Addr;
use std::path::Path;

use tempfile::{TempDir, tempdir};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::veth::{End, VethPair};

use super::*;

/// The name of the bridge.
pub(crate) const BRIDGE: &str = "br0";

/// An interface in its namespace.
pub(crate) type At<'a> = (&'a Namespace, &'a str);

/// The hosts, the switch between them, and a directory for files.
pub(crate) struct Lan {
    pub(crate) switch: Namespace,
    pub(crate) hosts: Vec<Host>,
    pub(crate) directory: TempDir,
}

/// A host with one interface.
pub(crate) struct Host {
    pub(crate) ns: Namespace,
    pub(crate) end: End,
    pub(crate) address: Ipv4Addr,
    /// The other end of its cable.
    pub(crate) port: String,
}

impl Lan {
    /// Hosts 10.66.0.1, 10.66.0.2, …
    #[track_caller]
    pub(crate) fn new(hosts: u8) -> Self {
        let switch = Namespace::new();
        // Without multicast snooping, the bridge sends no packets itself.
        switch.run("ip", ["link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0"]);
        switch.run("ip", ["link", "set", BRIDGE, "up"]);
        let hosts = (1..=hosts).map(|number| Host::new(&switch, number)).collect();
        Self { switch, hosts, directory: tempdir().unwrap() }
    }

    /// Starts `wirelane capture` with `ours` and tcpdump with `theirs` at an interface, for files
    /// of this name.
    #[track_caller]
    pub(crate) fn both(&self, name: &str, at: At<'_>, ours: &[&str], theirs: &[&str]) -> Both {
        let (ns, interface) = at;
        let file = self.path(&format!("{name}.pcapng"));
        let args = [&["-w", file.to_str().unwrap(), interface], ours].concat();
        let theirs = self.tcpdump(name, at, theirs);
        Both { ours: (Running::start(Some(ns), &args), file), theirs: vec![theirs] }
    }

    /// Starts tcpdump; no other file begins with the name of its file.
    #[track_caller]
    fn tcpdump(&self, name: &str, (ns, interface): At<'_>, args: &[&str]) -> Peer {
        Peer::tcpdump(ns, interface, &self.path(&format!("tcpdump-{name}.pcap")), args)
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Host {
    fn new(switch: &Namespace, number: u8) -> Self {
        let ns = Namespace::new();
        let pair = VethPair::new(&ns, switch, 2, 1500);
        let address = Ipv4Addr::new(10, 66, 0, number);
        for (ns, end) in [(&ns, &pair.a), (switch, &pair.b)] {
            ns.run("ip", ["address", "flush", "dev", &end.interface]);
            ns.run("ip", ["neigh", "flush", "dev", &end.interface, "nud", "permanent"]);
        }
        let name = pair.b.interface.as_str();
        switch.run("ip", ["link", "set", name, "master", BRIDGE]);
        let network = format!("{address}/24");
        ns.run("ip", ["address", "add", &network, "dev", &pair.a.interface]);
        Self { ns, address, port: name.to_owned(), end: pair.a }
    }

    /// The interface that captures this host's traffic.
    pub(crate) fn interface(&self) -> At<'_> {
        (&self.ns, &self.end.interface)
    }

    /// As [`ping`], from this host.
    #[track_caller]
    pub(crate) fn ping(&self, to: Ipv4Addr, count: usize, mark: &[u8; 8], size: usize) {
        ping(&self.ns, to, count, mark, size);
    }

    /// A web server for the files of a directory.
    #[track_caller]
    pub(crate) fn serve(&self, directory: &Path) -> ChildGuard {
        let address = self.address.to_string();
        let mut command = self.ns.command("python3");
        command.args(["-u", "-m", "http.server", "--bind", &address, "80", "--directory"]);
        let mut server = ChildGuard::spawn(command.arg(directory));
        server.wait_until(PATIENCE, |server| server.stdout().contains("Serving HTTP"));
        server
    }

    /// The answer of the web server at `from`.
    #[track_caller]
    pub(crate) fn fetch(&self, from: Ipv4Addr, path: &str) -> String {
        let url = format!("http://{from}{path}");
        self.ns.run("curl", ["-s", "--noproxy", "*", "--max-time", "120", &url])
    }
}

/// The length of a ping that holds its mark once: after 16 bytes of time.
pub(crate) const ONCE: usize = 24;

/// Pings `to` `count` times with `size` bytes that hold `mark`, as fast as it answers.
#[track_caller]
pub(crate) fn ping(from: &Namespace, to: Ipv4Addr, count: usize, mark: &[u8; 8], size: usize) {
    let pattern: String = mark.iter().map(|byte| format!("{byte:02x}")).collect();
    let [count, size] = [count, size].map(|number| number.to_string());
    let to = to.to_string();
    from.run("ping", ["-q", "-nf", "-w", "120", "-c", &count, "-s", &size, "-p", &pattern, &to]);
}
