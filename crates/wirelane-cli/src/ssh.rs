//! The SSH connections of this process's user: losing one locks the user out.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::{fmt, fs};

use wirelane::port::{Backend, Spec};
use wirelane::{Error, Result};
use wirelane_os::cgroup::ancestry;
use wirelane_os::sysfs::Sysfs;
use wirelane_os::{iface, netdev};

/// A connection to the SSH server of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The user's end.
    pub(crate) client: SocketAddr,
    /// The end of this machine.
    pub(crate) server: SocketAddr,
}

impl Connection {
    /// Parses `SSH_CONNECTION` as sshd(8) writes it: address and port of the client, then of the
    /// server. `None` for other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut end = || {
            // A link-local address has its interface as a suffix.
            let address = words.next()?.split('%').next()?.parse().ok()?;
            Some(SocketAddr::new(address, words.next()?.parse().ok()?))
        };
        Some(Self { client: end()?, server: end()? })
    }

    /// Whether its packets may arrive at `interface`. They cannot if another interface has the
    /// server's address and no interface is stacked on this one (a bridge, a bond, a VLAN).
    pub(crate) fn may_arrive_at(&self, interface: &str) -> bool {
        let owners = self.owners();
        if owners.is_empty() || owners.iter().any(|owner| owner == interface) {
            return true;
        }
        let directory = format!("class/net/{interface}");
        let files = Sysfs::of_this_namespace().and_then(|sysfs| sysfs.list(&directory));
        let is_upper = |name: &String| name.starts_with("upper_") || name == "master";
        files.is_none_or(|files| files.iter().any(is_upper))
    }

    /// The interfaces of this network namespace that have the address of the server.
    fn owners(&self) -> Vec<String> {
        let names = netdev::links().unwrap_or_default().into_iter().map(|link| link.name);
        let has = |name: &String| {
            iface::addresses(name).is_ok_and(|addresses| addresses.contains(&self.server.ip()))
        };
        names.filter(has).collect()
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.client, self.server)
    }
}

/// The connections in the environments of this process and its ancestors: sudo clears the
/// environment of its child. Connections of another network namespace, such as the namespace of a
/// shell outside a lab, are left out.
pub(crate) fn connections() -> Vec<Connection> {
    let said = |pid| Some((pid, environment(pid, "SSH_CONNECTION")?));
    let mut found: Vec<(u32, String)> = Vec::new();
    for (pid, text) in ancestry().filter_map(said) {
        // Keep the eldest process of each connection.
        found.retain(|(_, known)| *known != text);
        found.push((pid, text));
    }
    let here = |(pid, text): (u32, String)| {
        let connection = Connection::parse(&text)?;
        let is_here = shares_network(pid) != Some(false);
        (is_here || !connection.owners().is_empty()).then_some(connection)
    };
    found.into_iter().filter_map(here).collect()
}

/// Refuses to send through an interface that the user's own SSH connection may use, unless that is
/// `meant`.
///
/// # Errors
/// The connection may use the interface.
pub(crate) fn refuse_to_send(spec: &Spec, meant: bool) -> Result<()> {
    let is_interface = matches!(spec.backend, None | Some(Backend::Packet | Backend::Xdp));
    if meant || !is_interface {
        return Ok(());
    }
    let name = spec.name_text();
    let own = connections().into_iter().find(|connection| connection.may_arrive_at(name));
    own.map_or(Ok(()), |connection| {
        let cause = format!("your own SSH connection, {connection}, may use it");
        Err(Error::usage(format!("interface {name}"), cause)
            .help("packets that you send may end it; add --yes to send nevertheless"))
    })
}

/// A variable in the initial environment of process `pid`; `None` also if it may not be read.
fn environment(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |entry: &[u8]| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    environment.split(|byte| *byte == 0).find_map(value)
}

/// Whether the main thread of process `pid` is in the network namespace of the calling thread;
/// `None` if that cannot be seen.
fn shares_network(pid: u32) -> Option<bool> {
    let identity =
        |path: String| fs::metadata(path).ok().map(|namespace| (namespace.dev(), namespace.ino()));
    let own = identity("/proc/thread-self/ns/net".to_owned())?;
    identity(format!("/proc/{pid}/ns/net")).map(|other| other == own)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use wirelane_testkit::wait::eventually;

    use super::*;

    #[test]
    fn ancestors_come_in_order_with_their_environment() {
        let line: Vec<_> = ancestry().collect();
        assert_eq!(line.first(), Some(&std::process::id()));
        assert_eq!(line.get(1), Some(&std::os::unix::process::parent_id()));
        assert!(!line.contains(&0), "{line:?}");
        let mut child =
            Command::new("sleep").arg("600").env("WIRELANE_TEST", "a=b").spawn().unwrap();
        let pid = child.id();
        // Until the child executes its program, it has a copy of this environment.
        eventually(|| environment(pid, "WIRELANE_TEST").is_some());
        assert_eq!(environment(pid, "WIRELANE_TEST").as_deref(), Some("a=b"));
        assert_eq!(environment(pid, "WIRELANE"), None);
        assert_eq!(shares_network(pid), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((environment(pid, "WIRELANE_TEST"), shares_network(pid)), (None, None));
    }

    #[test]
    fn what_sshd_writes_is_read() {
        for (text, told) in [
            ("10.0.0.1 50022 10.0.0.2 22", "10.0.0.1:50022 to 10.0.0.2:22"),
            ("fe80::1%eth0 1 fe80::2%eth0 2222", "[fe80::1]:1 to [fe80::2]:2222"),
        ] {
            assert_eq!(Connection::parse(text).unwrap().to_string(), told);
        }
        for text in ["", "10.0.0.1 50022 10.0.0.2", "a 1 b 2", "10.0.0.1 70000 10.0.0.2 22"] {
            assert_eq!(Connection::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_of_another_interface_is_reached_there() {
        let connection = |server: &str| Connection {
            client: ([192, 0, 2, 1], 40_000).into(),
            server: SocketAddr::new(server.parse().unwrap(), 22),
        };
        assert!(connection("127.0.0.1").may_arrive_at("lo"));
        // No interface has this address: it may be translated on the way.
        assert!(connection("192.0.2.77").may_arrive_at("lo"));
    }
}
