//! `capture any`: many interfaces, other links than Ethernet, tags, and late interfaces.

use std::net::{Ipv4Addr, UdpSocket};

use tempfile::tempdir;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets as frames, privileged, process, tools};

use super::*;

const PORT: u16 = 4711;

/// Ends the capture. Returns its summary, which may have unknown counters.
#[track_caller]
fn end(running: Running) -> Value {
    running.child.interrupt();
    let ended = running.child.wait(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Sends `count` numbered packets to any address.
pub(super) fn send(from: &Namespace, address: Ipv4Addr, count: usize) {
    let sender = from.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
    for number in 0..count {
        sender.send_to(format!("{address} {number}").as_bytes(), (address, PORT)).unwrap();
    }
}

/// The name of the interface of each packet that holds this text.
fn interfaces_of(file: &Path, text: &str) -> Vec<String> {
    let mut reader = CaptureReader::open(file).unwrap();
    let mut names = Vec::new();
    while reader.advance().unwrap() {
        let record = reader.current();
        let source = &reader.interfaces()[record.interface as usize];
        if record.data.windows(text.len()).any(|bytes| bytes == text.as_bytes()) {
            names.push(source.name.clone());
        }
    }
    names.sort();
    names
}

/// A hundred pairs: packets that leave one end arrive at the other.
#[test]
fn privileged_two_hundred_interfaces_each_have_their_packets() {
    const PAIRS: usize = 100;
    const EACH: usize = 5;
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let directory = tempdir().unwrap();
    let batch = directory.path().join("batch");
    let pair = |i: usize| {
        format!(
            "link add a{i} type veth peer name b{i}\nlink set a{i} up\nlink set b{i} up\n\
             addr add 10.77.{i}.1/24 dev a{i}\n\
             neigh add 10.77.{i}.2 lladdr 02:00:00:00:00:02 dev a{i} nud permanent\n"
        )
    };
    fs::write(&batch, (0..PAIRS).map(pair).collect::<String>()).unwrap();
    ns.run("ip", ["-batch", batch.to_str().unwrap()]);
    let file = directory.path().join("x.pcapng");
    let args = ["any", "-f", "udp port 4711", "-w", file.to_str().unwrap()];
    let mut running = Running::spawn(Some(&ns), &args);
    running.wait_until_statistics(|_| true);
    for i in 0..PAIRS {
        send(&ns, Ipv4Addr::new(10, 77, i as u8, 2), EACH);
    }
    running.wait_for((2 * PAIRS * EACH) as u64);
    let summary = end(running);
    assert_eq!(summary["totals"]["delivered"], 2 * PAIRS * EACH, "{summary}");
    assert_eq!(summary["totals"]["dropped"], 0, "{summary}");
    let packets_of = |name: &str| {
        let queues = summary["queues"].as_array().unwrap().iter();
        let of = queues.filter(|queue| queue["interface"] == name);
        of.map(|queue| number(&queue["packets"])).sum::<u64>()
    };
    for i in 0..PAIRS {
        let (a, b) = (format!("a{i}"), format!("b{i}"));
        assert_eq!((packets_of(&a), packets_of(&b)), (EACH as u64, EACH as u64), "pair {i}");
        let expected = [vec![a; EACH], vec![b; EACH]].concat();
        assert_eq!(interfaces_of(&file, &format!("10.77.{i}.2 ")), expected, "pair {i}");
    }
}

/// An interface whose packets begin with IP, and a process that holds it.
pub(super) fn tunnel(ns: &Namespace) -> ChildGuard {
    let script = "import fcntl, os, struct\n\
                  tun = os.open('/dev/net/tun', os.O_RDWR)\n\
                  fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH', b'wl-tun', 0x1001))\n\
                  print('ready', flush=True)\n\
                  while True: os.read(tun, 65536)\n";
    let mut child = ChildGuard::spawn(ns.command("python3").args(["-c", script]));
    child.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    ns.run("ip", ["addr", "add", "10.78.0.1", "peer", "10.78.0.2/32", "dev", "wl-tun"]);
    ns.run("ip", ["link", "set", "wl-tun", "up"]);
    child
}

#[test]
fn privileged_packets_without_a_link_header() {
    if !privileged::require() || !tools::require("python3") || !tools::require("tcpdump") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let _tunnel = tunnel(&far);
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    let (all, ethernet, alone) = (text("all.pcapng"), text("all.pcap"), text("alone.pcap"));
    let filter = ["-f", "udp port 4711"];
    let start = |args: &[&str]| {
        let mut running = Running::spawn(Some(&far), &[args, &filter[..]].concat());
        running.wait_until_statistics(|_| true);
        running
    };
    let mut captures = [
        start(&["any", "-w", &all]),
        start(&["any", "-w", &ethernet]),
        start(&["wl-tun", "-w", &alone]),
    ];
    let theirs = path("theirs.pcap");
    let mut tcpdump = far.command("tcpdump");
    tcpdump.args(["-Z", "root", "-U", "-i", "wl-tun", "-w"]).arg(&theirs);
    let mut tcpdump = ChildGuard::spawn(&mut tcpdump);
    tcpdump.wait_until(PATIENCE, |child| child.stderr().contains("listening"));
    send(&far, pair.a.address, 20);
    send(&far, Ipv4Addr::new(10, 78, 0, 2), 30);
    for (capture, count) in captures.iter_mut().zip([50, 50, 30]) {
        capture.wait_until_statistics(|stats| {
            let totals = &stats["totals"];
            let dropped = totals["dropped"].as_u64().unwrap_or(0);
            number(&totals["delivered"]) + dropped >= count
        });
    }
    tcpdump.wait_until(PATIENCE, |_| {
        CaptureReader::open(&theirs).is_ok() && readable(&theirs).0.len() >= 30
    });
    tcpdump.interrupt();
    tcpdump.wait(PATIENCE);
    let [_, in_pcap, _] = captures.map(end);
    // One file of many links: each packet is unchanged.
    assert_eq!(interfaces_of(Path::new(&all), "10.78.0.2 "), vec!["wl-tun"; 30]);
    assert_eq!(interfaces_of(Path::new(&all), &format!("{} ", pair.a.address)).len(), 20);
    // pcap has one link type: the note names the interface whose packets are missing.
    assert_eq!(packets(&ethernet).len(), 20);
    assert_eq!(dropped_by_writer(&in_pcap), 30, "{in_pcap}");
    let notes = in_pcap["ports"][0]["notes"].to_string();
    assert!(notes.contains("wl-tun") && notes.contains("one link type"), "{notes}");
    // Alone, they equal tcpdump's file.
    let link_type = |file: &Path| CaptureReader::open(file).unwrap().interfaces()[0].link_type;
    let data = |file: &Path| -> Vec<_> { packets(file).into_iter().map(|it| it.data).collect() };
    let alone = Path::new(&alone);
    assert_eq!((link_type(alone), data(alone)), (link_type(&theirs), data(&theirs)));
    // Printed lines decode them.
    let words = ["capture", "-q", "-t", "-r", alone.to_str().unwrap()];
    let printed = process::run(&mut wirelane(words));
    assert_eq!(printed.matches("IP 10.78.0.1.").count(), 30, "{printed}");
}

/// Sums the rows with a known number.
fn dropped_by_writer(summary: &Value) -> u64 {
    let queues = summary["queues"].as_array().unwrap().iter();
    queues.filter_map(|queue| queue["dropped"]["writer"].as_u64()).sum()
}

/// The kernel removes a tag from the packet; the capture restores it.
#[test]
fn privileged_tags_are_where_they_were() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-tag", 2);
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let mut running = Running::spawn(Some(&ns), &["any", "-w", file.to_str().unwrap()]);
    running.wait_until_statistics(|_| true);
    let doubled = |number: u64| {
        let mut frame = frames::udp4(number).vlan(7).build();
        // A provider tag around the customer tag (IEEE 802.1ad).
        frame.splice(12..12, [0x88, 0xa8, 0x20, 9]);
        frame
    };
    let mut sent: Vec<_> = (0..40)
        .map(|number| match number % 4 {
            0 => frames::udp4(number).build(),
            1 => frames::udp6(number).vlan(7).build(),
            2 => frames::tcp4(number).vlan(0).build(),
            _ => doubled(number),
        })
        .collect();
    sent.iter().enumerate().for_each(|(at, frame)| tap.write(at % 2, frame));
    running.wait_for(sent.len() as u64);
    end(running);
    let mut found: Vec<_> = packets(&file).into_iter().map(|packet| packet.data).collect();
    // The system may have sent packets itself; it uses no tags.
    found.retain(|data| sent.contains(data) || frames::sequence(data).is_some());
    found.sort();
    sent.sort();
    assert!(found == sent, "{} of {}", found.len(), sent.len());
    let words = ["capture", "-q", "-t", "-r", file.to_str().unwrap(), "vlan"];
    let printed = process::run(&mut wirelane(words));
    assert_eq!(printed.lines().count(), 30, "{printed}");
    assert_eq!(printed.matches("vlan 7, ").count(), 20, "{printed}");
    assert_eq!(printed.matches("vlan 9, ").count(), 10, "{printed}");
}

#[test]
fn privileged_lines_of_interfaces_that_come_late_name_them() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let first = VethPair::new(&near, &far, 1, 1500);
    let mut command = far.command(WIRELANE);
    command.args(["capture", "any", "-q", "-n", "-t", "--immediate-mode", "udp port 4711"]);
    let mut child = ChildGuard::spawn(&mut command);
    let mut running = {
        let pid = child.id().to_string();
        child.wait_until(PATIENCE, |_| output(&mut wirelane(["mask", &pid])).status.success());
        Running { child }
    };
    let mut pairs = vec![first];
    for round in 0..3 {
        let pair = pairs.last().unwrap();
        let (address, name) = (pair.b.address, pair.b.interface.clone());
        // No socket listens, so the host answers with an error; the filter rejects it.
        send(&near, address, 10);
        running.child.wait_until(PATIENCE, |child| {
            let text = child.stdout();
            let of = text.lines().filter(|line| line.contains(&format!(" > {address}.4711: UDP")));
            let of: Vec<_> = of.collect();
            assert!(of.iter().all(|line| line.starts_with(&format!("{name} "))), "{text}");
            of.len() == 10
        });
        if round < 2 {
            pairs.push(VethPair::new(&near, &far, 1, 1500));
        }
    }
    running.child.interrupt();
    let ended = running.child.wait(PATIENCE);
    assert_eq!((ended.status.code(), ended.stdout.lines().count()), (Some(0), 30));
}

/// A store has each packet with its interface, even for late interfaces and other link types.
#[test]
fn privileged_every_interface_is_recorded() {
    const EACH: usize = 5;
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let pair = |i: usize| {
        let (a, b) = (format!("a{i}"), format!("b{i}"));
        ns.run("ip", ["link", "add", &a, "type", "veth", "peer", "name", &b]);
        for name in [&a, &b] {
            ns.run("ip", ["link", "set", name, "up"]);
        }
        ns.run("ip", ["addr", "add", &format!("10.77.{i}.1/24"), "dev", &a]);
        let (host, mac) = (format!("10.77.{i}.2"), "02:00:00:00:00:02");
        ns.run("ip", ["neigh", "add", &host, "lladdr", mac, "dev", &a, "nud", "permanent"]);
    };
    (0..3).for_each(pair);
    let directory = tempdir().unwrap();
    let (store, file) = (directory.path().join("store"), directory.path().join("x.pcapng"));
    let mut command = ns.command(WIRELANE);
    command.args(["record", "-q", "--json", "any", "-f", "udp port 4711"]).arg(&store);
    let mut child = ChildGuard::spawn(&mut command);
    let delivered = |child: &ChildGuard| {
        let said = output(&mut wirelane(["stats", "--json", &child.id().to_string()]));
        serde_json::from_str::<Value>(&said.stdout).ok()?["totals"]["delivered"].as_u64()
    };
    child.wait_until(PATIENCE, |child| delivered(child).is_some());
    for i in 0..6 {
        if i >= 3 {
            pair(i);
        }
        send(&ns, Ipv4Addr::new(10, 77, i as u8, 2), EACH);
        let expected = 2 * EACH as u64 * (i as u64 + 1);
        child.wait_until(PATIENCE, |child| delivered(child) >= Some(expected));
    }
    let _tunnel = tunnel(&ns);
    send(&ns, Ipv4Addr::new(10, 78, 0, 2), EACH);
    child.wait_until(PATIENCE, |child| delivered(child) >= Some(13 * EACH as u64));
    child.interrupt();
    let ended = child.wait(PATIENCE);
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(summary["totals"]["written"], 13 * EACH, "{summary}");
    process::run(wirelane(["extract", "-q"]).arg(&store).arg("-w").arg(&file));
    assert_eq!(packets(&file).len(), 13 * EACH);
    for i in 0..6 {
        let expected = [vec![format!("a{i}"); EACH], vec![format!("b{i}"); EACH]].concat();
        assert_eq!(interfaces_of(&file, &format!("10.77.{i}.2 ")), expected, "pair {i}");
    }
    assert_eq!(interfaces_of(&file, "10.78.0.2 "), vec!["wl-tun"; EACH]);
}
