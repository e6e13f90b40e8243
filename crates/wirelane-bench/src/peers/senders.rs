//! Programs that send: how each is started so that it sends as fast as it can until it is ended.

use std::path::Path;
use std::process::Command;

use crate::peers::process::answer;
use crate::peers::{find, missing, testpmd};
use crate::task::Task;

/// A program that sends, in one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendProgram {
    /// Its name in rows.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
    way: SendMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendMethod {
    Tcpreplay { xdp: bool },
    Trafgen,
    XdpTrafficgen,
    Testpmd,
}

/// The task of a sender.
#[derive(Clone, Copy, Debug)]
pub struct SendTask<'a> {
    /// The interface.
    pub interface: &'a str,
    /// The CPU that it is bound to.
    pub cpu: u32,
    /// The packet. Programs that build their own packets use its length.
    pub packet: &'a [u8],
    /// A capture file of such packets.
    pub file: &'a Path,
}

/// All of them.
pub const SENDERS: [SendProgram; 5] = [
    SendProgram {
        name: TCPREPLAY,
        program: "tcpreplay",
        way: SendMethod::Tcpreplay { xdp: false },
    },
    SendProgram {
        name: TCPREPLAY_XDP,
        program: "tcpreplay",
        way: SendMethod::Tcpreplay { xdp: true },
    },
    SendProgram { name: TRAFGEN, program: "trafgen", way: SendMethod::Trafgen },
    SendProgram { name: XDP_TRAFFICGEN, program: "xdp-trafficgen", way: SendMethod::XdpTrafficgen },
    SendProgram { name: testpmd::PROGRAM, program: testpmd::PROGRAM, way: SendMethod::Testpmd },
];

/// tcpreplay over a packet socket.
pub const TCPREPLAY: &str = "tcpreplay";
/// tcpreplay over AF_XDP, since 4.5.
pub const TCPREPLAY_XDP: &str = "tcpreplay --xdp";
/// trafgen of netsniff-ng.
pub const TRAFGEN: &str = "trafgen";
/// xdp-trafficgen of xdp-tools.
pub const XDP_TRAFFICGEN: &str = "xdp-trafficgen";

/// Loops or packets, more than any measurement can send.
const FOREVER: &str = "100000000";

impl SendProgram {
    /// Whether it sends a capture file.
    pub fn replays(&self) -> bool {
        matches!(self.way, SendMethod::Tcpreplay { .. })
    }

    /// The command that sends without end, as fast as it can.
    ///
    /// # Errors
    /// The program is not installed, or this version cannot do that.
    pub fn command(&self, order: &SendTask<'_>) -> Result<Command, String> {
        let SendTask { interface, cpu, packet, file } = *order;
        let Some(path) = find(self.program) else { return Err(missing(self.program)) };
        let mut command = Command::new(&path);
        match self.way {
            SendMethod::Tcpreplay { xdp } => {
                self.needs_xdp(&path, xdp)?;
                command.args(["-i", interface]).args(xdp.then_some("--xdp"));
                command.args(["--topspeed", "--preload-pcap", "--loop", FOREVER]).arg(file);
            }
            SendMethod::Trafgen => {
                let bytes: Vec<_> = packet.iter().map(|byte| format!("0x{byte:02x}")).collect();
                // It must not retune the machine.
                command.args(["--dev", interface, "--cpus", "1", "--no-sock-mem", "--notouch-irq"]);
                command.arg("--no-cpu-stats").arg(format!("{{ {} }}", bytes.join(", ")));
            }
            SendMethod::XdpTrafficgen => {
                let size = packet.len().to_string();
                command.args(["udp", "--threads", "1", "--num-packets", FOREVER]);
                if packet.len() != XDP_TRAFFICGEN_SIZE {
                    if !says(&path, &["udp", "--help"], "--pkt-size") {
                        let version = "this version sends packets of 64 bytes only";
                        return Err(format!("{}: {version} (1.6 has --pkt-size)", self.name));
                    }
                    command.args(["--pkt-size", &size]);
                }
                command.arg(interface);
            }
            SendMethod::Testpmd => {
                let made = testpmd::command(Task::Txpush, interface, packet.len(), cpu);
                command = made.ok_or_else(|| missing(self.program))?;
            }
        }
        Ok(command)
    }

    /// The command that sends a capture file once, with its own timing. Only for programs with
    /// [`SendProgram::replays`].
    ///
    /// # Errors
    /// As above.
    pub fn replay(&self, interface: &str, file: &Path) -> Result<Command, String> {
        let SendMethod::Tcpreplay { xdp } = self.way else {
            return Err(format!("{} sends no capture files", self.name));
        };
        let Some(path) = find(self.program) else { return Err(missing(self.program)) };
        self.needs_xdp(&path, xdp)?;
        let mut command = Command::new(path);
        command.args(["-i", interface]).args(xdp.then_some("--xdp"));
        command.arg("--preload-pcap").arg(file);
        Ok(command)
    }

    fn needs_xdp(&self, path: &Path, xdp: bool) -> Result<(), String> {
        if !xdp || says(path, &["--help"], "--xdp") {
            return Ok(());
        }
        Err(format!(
            "{}: this tcpreplay is built without AF_XDP (4.5 with libxdp has it)",
            self.name
        ))
    }
}

/// Packet size of versions of xdp-trafficgen without `--pkt-size`.
const XDP_TRAFFICGEN_SIZE: usize = 64;

/// Whether a program prints `word` when called with these arguments.
fn says(program: &Path, arguments: &[&str], word: &str) -> bool {
    let said = answer(Command::new(program).args(arguments));
    said.is_some_and(|said| said.stdout.contains(word) || said.stderr.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sender_has_a_command_or_says_why_not() {
        let packet = [7; 100];
        let order =
            SendTask { interface: "if0", cpu: 3, packet: &packet, file: Path::new("/x/a.pcap") };
        for sender in SENDERS {
            match sender.command(&order) {
                Ok(command) => {
                    let words: Vec<_> = command
                        .get_args()
                        .map(|word| word.to_string_lossy().into_owned())
                        .collect();
                    assert!(words.iter().any(|word| word.contains("if0")), "{words:?}");
                    assert_eq!(words.iter().any(|word| word == "/x/a.pcap"), sender.replays());
                }
                Err(reason) => {
                    assert!(reason.starts_with(sender.name) || reason.starts_with(sender.program));
                }
            }
            let replay = sender.replay("if0", Path::new("/x/a.pcap"));
            assert!(sender.replays() || replay.is_err());
        }
    }
}
