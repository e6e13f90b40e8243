//! Wirelane's command: its engines, and its arguments.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// The engine and the kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// The command's own choice.
    Default,
    /// A program in the kernel.
    Kernel,
    /// A socket of AF_XDP.
    Xdp,
    /// A packet socket.
    Packet,
}

impl Ours {
    pub(super) const ALL: [Self; 4] = [Self::Default, Self::Kernel, Self::Xdp, Self::Packet];

    /// Its name in the list of skipped cases.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Kernel => "kernel",
            Self::Xdp => "sockets-xdp",
            Self::Packet => "sockets-packet",
        }
    }

    /// A command that generates UDP packets of `size` bytes in `flows` flows, without end.
    pub(super) fn generate(
        self,
        own: &Path,
        interface: &str,
        size: usize,
        flows: u32,
        rate: Option<u64>,
    ) -> Command {
        let mut command = self.send(own, interface);
        command.args(["--packet", &packet(flows), "--size", &size.to_string()]);
        match rate {
            Some(rate) => command.args(["--rate", &format!("{rate}pps")]),
            None => command.arg("--top-speed"),
        };
        command
    }

    /// A command that sends a file: repeated and as fast as possible, or once with its own timing.
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

/// The packet in Wirelane's notation. No host has its address, so no host answers.
fn packet(flows: u32) -> String {
    const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    let last = Ipv4Addr::from_bits(FIRST.to_bits() + flows.saturating_sub(1));
    let range = if flows > 1 { format!("{FIRST}-{last}") } else { FIRST.to_string() };
    format!("eth dst=02:00:00:00:00:02 ipv4 dst={range} udp src=7 dst=9")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_flows_have_as_many_addresses() {
        assert!(packet(1).contains(" dst=198.18.0.1 "));
        assert!(packet(100_000).contains(" dst=198.18.0.1-198.19.134.160 "));
    }
}
