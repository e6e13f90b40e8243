//! Readers that pause, at every rate: each packet that was sent was received or counted as dropped.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::privileged;
use wirelane_testkit::process::output;
use wirelane_testkit::veth::VethPair;

use super::*;

const FILTER: &str = "udp port 7007";
const PAUSE: Duration = Duration::from_millis(700);

/// The commands that receive and sum up.
fn summing(directory: &Path) -> Vec<(&'static str, Vec<String>)> {
    let place = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let words = |text: &str, more: &[String]| {
        text.split(' ').map(str::to_owned).chain(more.iter().cloned()).collect::<Vec<_>>()
    };
    vec![
        ("capture", words("capture --json --keep-privileges -w", &[place("written.pcapng")])),
        ("record", words("record --json --keep-privileges", &[place("store")])),
        ("count", words("count --json --by proto", &[])),
        ("flows", words("flows --json -w", &[place("flows.json")])),
    ]
}

/// All readers pause while packets arrive at a rate.
fn conserve(packets: u64, rate: &str) {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let directory = tempfile::tempdir().unwrap();
    let port = pair.b.interface.as_str();
    let commands = summing(directory.path());
    let begin =
        |(name, args): &(&'static str, Vec<String>)| (*name, start(&far, port, args, FILTER));
    let mut running: Vec<_> = commands.iter().map(begin).collect();
    if let Some(tcpdump) = Program::find("tcpdump") {
        let mut command = tcpdump.command(Library::Ours, Some(&far));
        let mut child = ChildGuard::spawn(command.args(["-i", port, "-w", "/dev/null", FILTER]));
        child.wait_until(PATIENCE, |child| child.stderr().contains("listening on"));
        running.push(("tcpdump", child));
    }
    let count = packets.to_string();
    let packet = format!(
        "eth src={} dst={} ipv4 src=10.9.9.9 dst={} udp src=7007 dst=7007",
        mac(pair.a.mac),
        mac(pair.b.mac),
        pair.b.address
    );
    let mut command: Command = near.command(WIRELANE);
    command.args(["send", &pair.a.interface, "--packet", &packet, "-c", &count, "--json"]);
    command.args(["--rate", rate]);
    let sending = thread::spawn(move || output(&mut command));
    thread::sleep(Duration::from_millis(300));
    running.iter().for_each(|(_, child)| child.signal(Signal::STOP));
    thread::sleep(PAUSE);
    running.iter().for_each(|(_, child)| child.signal(Signal::CONT));
    let sent = sending.join().unwrap();
    assert!(sent.status.success(), "{}", sent.stderr);
    thread::sleep(Duration::from_millis(500));
    for (name, child) in running {
        child.interrupt();
        let ended = child.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{name}: {}", ended.stderr);
        let (received, dropped) = match name {
            "tcpdump" => {
                let count = |what: &str| {
                    let line = ended.stderr.lines().find(|line| line.ends_with(what)).unwrap();
                    line.split(' ').next().unwrap().parse::<u64>().unwrap()
                };
                (count("packets captured"), count("dropped by kernel"))
            }
            _ => {
                let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
                let totals = &summary["totals"];
                (number(&totals["delivered"]), number(&totals["dropped"]))
            }
        };
        assert_eq!(
            received + dropped,
            packets,
            "{name}: {received} and {dropped}: {}",
            ended.stderr
        );
        // Slow traffic waits in the rings.
        assert!(packets > 3000 || dropped == 0, "{name}: {dropped} dropped");
    }
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

#[test]
fn privileged_packets_are_conserved_at_100_packets_a_second() {
    conserve(200, "100pps");
}

#[test]
fn privileged_packets_are_conserved_at_1_000_packets_a_second() {
    conserve(2000, "1kpps");
}

#[test]
fn privileged_packets_are_conserved_at_10_000_packets_a_second() {
    conserve(20_000, "10kpps");
}

#[test]
fn privileged_packets_are_conserved_at_100_000_packets_a_second() {
    conserve(150_000, "100kpps");
}

#[test]
fn privileged_packets_are_conserved_at_the_speed_of_the_sender() {
    conserve(400_000, "max");
}
