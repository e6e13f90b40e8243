//! "Packets are missing: why, and what can I do?" Each kind of loss is provoked, named and counted,
//! and the remedy in the message works.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::tempdir;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::packets;
use wirelane_testkit::process::{self, ChildGuard, Output};
use wirelane_testkit::tap::MultiQueueTap;

use super::lan::Lan;
use super::*;

const BURST: u64 = 2000;
const LENGTH: usize = 1000;

/// `wirelane ARGS` with text output. Waits until it receives packets.
#[track_caller]
fn start(ns: &Namespace, args: &[&str]) -> ChildGuard {
    let mut child = ChildGuard::spawn(ns.command(WIRELANE).args(args));
    let pid = child.id().to_string();
    let answers = |_: &ChildGuard| process::output(&mut wirelane(["mask", &pid])).status.success();
    child.wait_until(PATIENCE, answers);
    child
}

/// Stops all threads of the process.
#[track_caller]
fn halt(child: &mut ChildGuard) {
    child.signal(Signal::STOP);
    let path = format!("/proc/{}/stat", child.id());
    let stands = |_: &ChildGuard| fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T "));
    child.wait_until(PATIENCE, stands);
}

/// Ends it as ^C does. Returns its messages.
#[track_caller]
fn finish(child: ChildGuard) -> String {
    child.interrupt();
    said(child.wait(PATIENCE))
}

#[track_caller]
fn said(ended: Output) -> String {
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stderr
}

/// The line with the number of captured packets.
#[track_caller]
fn headline(said: &str) -> &str {
    let is_headline = |line: &&str| line.contains(" filtered, ") && line.contains(" dropped");
    said.lines().find(is_headline).unwrap_or_else(|| panic!("{said}"))
}

/// The number in front of this word of the headline.
#[track_caller]
fn count(said: &str, word: &str) -> u64 {
    let before = headline(said).split(word).next().unwrap().trim_end();
    let digits = before.rsplit(' ').next().unwrap().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("{word} in {said}"))
}

/// The line with the remedy for this loss.
#[track_caller]
fn remedy<'a>(said: &'a str, loss: &str) -> &'a str {
    assert!(headline(said).contains(&format!(" dropped ({loss})")), "{said}");
    let begin = format!("dropped ({loss}): ");
    let lines: Vec<_> = said.lines().filter_map(|line| line.strip_prefix(&begin)).collect();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0]
}

/// Packets that arrive while the capture is stopped.
#[test]
fn privileged_the_ring_of_the_kernel_was_full() {
    if unavailable(&[]) {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-full", 1);
    let directory = tempdir().unwrap();
    let file = directory.path().join("full.pcapng");
    let capture = |args: &[&str]| {
        let args = [&["capture", "packet:wl-full", "-w", file.to_str().unwrap()], args].concat();
        let mut child = start(&ns, &args);
        halt(&mut child);
        for n in 0..BURST {
            let frame = packets::udp4(n).length(if n % 2 == 0 { LENGTH } else { 100 });
            tap.write(0, &frame.build());
        }
        child.signal(Signal::CONT);
        finish(child)
    };
    let lossy = capture(&["--ring", "256K"]);
    let sum = |said: &str| {
        ["captured", "filtered", "dropped"].map(|word| count(said, word)).iter().sum::<u64>()
    };
    assert_eq!(sum(&lossy), BURST, "{lossy}");
    assert!(count(&lossy, "dropped") > 0, "{lossy}");
    let helps = remedy(&lossy, "kernel");
    assert!(helps.contains("(--ring 64M)") && helps.contains("a filter"), "{helps}");
    assert_eq!(shared::packets(&file).len() as u64, count(&lossy, "captured"));

    let whole = capture(&["--ring", "64M"]);
    assert_eq!((count(&whole, "captured"), count(&whole, "dropped")), (BURST, 0), "{whole}");

    // Rejected packets take no room in the ring, and are counted even while it is full.
    let filtered = capture(&["--ring", "256K", "-f", "greater 500"]);
    assert_eq!(count(&filtered, "filtered"), BURST / 2, "{filtered}");
    assert_eq!(sum(&filtered), BURST, "{filtered}");
    assert!(count(&filtered, "dropped") < count(&lossy, "dropped"), "{filtered}{lossy}");
}

#[test]
fn privileged_the_port_had_no_free_frame() {
    if unavailable(&["ip"]) {
        return;
    }
    let lan = Lan::new(2);
    let [sender, receiver] = &lan.hosts[..] else { unreachable!() };
    let file = lan.path("frames.pcapng");
    let (ns, interface) = receiver.interface();
    // Only IPv4: ping does not count other packets.
    let capture = |frames: &str| {
        let port = format!("xdp:{interface}?frames={frames}");
        let args = ["capture", &port, "-f", "icmp", "-w", file.to_str().unwrap()];
        let mut child = start(ns, &args);
        halt(&mut child);
        let to = receiver.address.to_string();
        let args = ["-f", "-q", "-c", "500", "-l", "500", "-W", "1", &to];
        // No host answers: the capture takes the packets away.
        let pinged = process::output(sender.ns.command("ping").args(args));
        assert!(pinged.stdout.contains("500 packets transmitted"), "{}", pinged.stdout);
        child.signal(Signal::CONT);
        finish(child)
    };
    let lossy = capture("64");
    assert_eq!(count(&lossy, "captured") + count(&lossy, "dropped"), 500, "{lossy}");
    assert!(remedy(&lossy, "ring_full").contains("(PORT?frames=N)"), "{lossy}");
    let whole = capture("8192");
    assert_eq!((count(&whole, "captured"), count(&whole, "dropped")), (500, 0), "{whole}");
}

#[test]
fn privileged_the_output_was_too_slow() {
    if unavailable(&[]) {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-slow", 1);
    let directory = tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    process::run(Command::new("mkfifo").arg(&fifo));
    let capture = |buffer: &str| {
        let path = fifo.to_str().unwrap();
        let args = ["capture", "packet:wl-slow", "-w", path, "--buffer", buffer, "--ring", "64M"];
        // Open, but unread until all packets have arrived.
        let silent = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let mut child = start(&ns, &args);
        (0..BURST).for_each(|n| tap.write(0, &packets::udp4(n).length(LENGTH).build()));
        let pid = child.id().to_string();
        let have_come = |_: &ChildGuard| {
            let stats = process::output(&mut wirelane(["stats", "--json", &pid])).stdout;
            let stats: Value = serde_json::from_str(&stats).unwrap();
            number(&stats["totals"]["received"]) == BURST
        };
        child.wait_until(PATIENCE, have_come);
        // The last packets may be between the receiver and the writer.
        sleep(Duration::from_millis(100));
        let mut reader = fs::File::open(&fifo).unwrap();
        drop(silent);
        let read = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        let said = finish(child);
        assert!(read.join().unwrap().unwrap() > 0);
        said
    };
    let lossy = capture("1M");
    assert_eq!(count(&lossy, "captured") + count(&lossy, "dropped"), BURST, "{lossy}");
    let helps = remedy(&lossy, "writer");
    assert!(helps.contains("-s 96") && helps.contains("--buffer"), "{helps}");
    let whole = capture("64M");
    assert_eq!((count(&whole, "captured"), count(&whole, "dropped")), (BURST, 0), "{whole}");
}

/// A link that is slower than the traffic.
#[test]
fn privileged_a_queue_to_send_through_was_full() {
    if unavailable(&["tc"]) {
        return;
    }
    let lan = Lan::new(1);
    let (ns, interface) = lan.hosts[0].interface();
    ns.run(
        "tc",
        [
            "qdisc", "add", "dev", interface, "root", "tbf", "rate", "20mbit", "burst", "10kb",
            "limit", "20kb",
        ],
    );
    let forward = |options: &[&str]| {
        let args = ["forward", "sim:1?rate=20kpps&size=1000&count=4000", interface];
        said(process::output(ns.command(WIRELANE).args(args).args(options)))
    };
    let lossy = forward(&[]);
    assert!(count(&lossy, "dropped") > 0, "{lossy}");
    let helps = remedy(&lossy, "tx_full");
    assert!(helps.contains("--qdisc fifo"), "{helps}");
    let whole = forward(&["--qdisc", "fifo,limit=5000"]);
    assert_eq!(count(&whole, "dropped"), 0, "{whole}");
}
