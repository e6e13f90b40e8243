//! Our command: its ways to send, and its arguments.

use std::path::Path;
use std::process::Command;

/// Who sends, and through what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// What the command chooses by itself.
    Default,
    /// A program in the kernel.
    Kernel,
    /// A socket of AF_XDP.
    Xdp,
    /// A packet socket.
    Packet,
}

/// Bytes of an Ethernet header, and those of IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;

impl Ours {
    pub(super) const ALL: [Self; 4] = [Self::Default, Self::Kernel, Self::Xdp, Self::Packet];

    /// Its name among the cases that were left out.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Kernel => "kernel",
            Self::Xdp => "sockets-xdp",
            Self::Packet => "sockets-packet",
        }
    }

    /// A command that generates UDP packets of `size` bytes in so many flows, without end.
    pub(super) fn generate(
        self,
        own: &Path,
        interface: &str,
        size: usize,
        flows: u32,
        rate: Option<u64>,
    ) -> Command {
        let mut command = self.send(own, interface);
        command.arg("--packet").arg(packet(size, flows));
        match rate {
            Some(rate) => command.args(["--rate", &format!("{rate}pps")]),
            None => command.arg("--top-speed"),
        };
        command
    }

    /// A command that sends a file; again and again as fast as it can, or once in its time.
    pub(super) fn replay(
        self,
        own: &Path,
        interface: &str,
        file: &Path,
        is_endless: bool,
    ) -> Command {
        let mut command = self.send(own, interface);
        command.arg(file);
        if is_endless {
            command.args(["--top-speed", "--loop", "0"]);
        }
        command
    }

    fn send(self, own: &Path, interface: &str) -> Command {
        let mut command = Command::new(own);
        let (backend, engine) = match self {
            Self::Default => ("", None),
            Self::Kernel => ("", Some("kernel")),
            Self::Xdp => ("xdp:", Some("sockets")),
            Self::Packet => ("packet:", Some("sockets")),
        };
        command.args(["send", &format!("{backend}{interface}"), "--quiet", "--json"]);
        command.args(engine.iter().flat_map(|engine| ["--engine", *engine]));
        command
    }
}

/// The packet in our language.
fn packet(size: usize, flows: u32) -> String {
    let first = u32::from_be_bytes([10, 1, 0, 0]);
    let last = std::net::Ipv4Addr::from(first + flows.saturating_sub(1));
    let destination = match flows {
        0 | 1 => "10.1.0.0".to_owned(),
        _ => format!("10.1.0.0-{last}"),
    };
    let payload = size.saturating_sub(HEADERS);
    format!("eth dst=02:00:00:00:00:02 ipv4 src=10.0.0.1 dst={destination} udp src=7 dst=9 payload len={payload}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_flows_have_as_many_addresses() {
        assert!(packet(64, 1).contains(" dst=10.1.0.0 "));
        assert!(packet(64, 100_000).contains(" dst=10.1.0.0-10.2.134.159 "));
        assert!(packet(64, 1).ends_with("=22"));
    }
}
