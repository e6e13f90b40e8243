//! tcpdump: live, filters, files, pipes, limits, signals, statistics, lists and errors.

use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::privileged;

use crate::bed::{Bed, Ending, assert_alike, assert_same, offline, succeeded};
use crate::capture::assert_same_packets;
use crate::traffic;

/// Everything that it prints of a packet except the time.
const ALL: [&str; 8] = ["-i", "@", "-n", "-t", "-e", "-vv", "-XX", "-l"];
/// The stock library also counts packets of the other direction, which it then drops itself.
const COUNTED: &str = "packets received by filter";
const PROGRAMS: [&str; 2] = ["tcpdump", "tcpreplay"];

#[test]
fn privileged_tcpdump_prints_and_counts_every_packet_until_an_interrupt() {
    if !privileged::require() || !Program::require(&PROGRAMS) {
        return;
    }
    let bed = Bed::new();
    let runs = succeeded(bed.live("tcpdump", &ALL, Ending::Interrupt));
    assert_alike("tcpdump", &runs);
    let all = traffic::frames().len();
    let said = &runs[1].output.stderr;
    let counts = ["captured", "received by filter"].map(|what| format!("{all} packets {what}\n"));
    assert!(said.contains(&counts.concat()), "{said}");
    assert!(said.contains("0 packets dropped by kernel"), "{said}");
}

#[test]
fn privileged_tcpdump_filters_the_same_packets() {
    if !privileged::require() || !Program::require(&PROGRAMS) {
        return;
    }
    const FILTERS: [&str; 11] = [
        "udp port 53",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "vlan",
        "vlan 102 and udp",
        "udp and not vlan",
        "icmp or arp",
        "ip6",
        "greater 1000",
        "net 192.0.2.0/29 and not tcp",
        "ether broadcast",
        "ip[6:2] & 0x1fff != 0",
    ];
    let bed = Bed::new();
    let args = FILTERS.map(|filter| [&ALL[..], &[filter]].concat());
    let programs: Vec<_> = args.iter().map(|args| ("tcpdump", &args[..])).collect();
    let runs = bed.watch(&programs, Ending::Interrupt, || bed.replay());
    for (filter, runs) in FILTERS.into_iter().zip(runs) {
        let runs = succeeded(runs);
        assert_alike(filter, &runs);
        assert!(!runs[0].output.stdout.trim().is_empty(), "{filter}");
    }
}

#[test]
fn privileged_tcpdump_writes_the_same_files() {
    if !privileged::require() || !Program::require(&PROGRAMS) {
        return;
    }
    let bed = Bed::new();
    let all = traffic::frames().len();
    let cases: [(&[&str], usize); 6] = [
        (&["-i", "@", "-w", "out", "-U"], all),
        (&["-i", "@", "-w", "out", "-s", "64"], all),
        (&["-i", "@", "-w", "out", "--time-stamp-precision=nano"], all),
        (&["-i", "@", "-w", "out", "--immediate-mode", "-p"], all),
        (&["-i", "@", "-w", "out", "-B", "8192", "tcp"], 0),
        (&["-i", "@", "-w", "out", "-Q", "in", "-y", "EN10MB"], all),
    ];
    let programs = cases.map(|(args, _)| ("tcpdump", args));
    for (runs, (args, expected)) in
        bed.watch(&programs, Ending::Interrupt, || bed.replay()).into_iter().zip(cases)
    {
        let runs = succeeded(runs);
        assert_alike(&format!("{args:?}"), &runs);
        let [stock, ours] = runs.map(|run| run.bytes("out"));
        let ours = assert_same_packets(&format!("{args:?}"), [&stock, &ours]);
        assert!(!ours.records.is_empty());
        assert!(expected == 0 || ours.records.len() == expected, "{}", ours.records.len());
    }
}

#[test]
fn privileged_tcpdump_stops_after_a_count() {
    if !privileged::require() || !Program::require(&PROGRAMS) {
        return;
    }
    let bed = Bed::new();
    let pipe = "tcpdump -i @ -c 100 -U -w - | tcpdump -n -t -e -x -r -";
    let programs: [(&str, &[&str]); 4] = [
        ("tcpdump", &["-i", "@", "-n", "-t", "-e", "-x", "-c", "1"]),
        ("tcpdump", &["-i", "@", "-n", "-t", "-e", "-x", "-c", "77"]),
        ("tcpdump", &["-i", "@", "-n", "-t", "-e", "-x", "-c", "20", "udp port 53"]),
        ("sh", &["-c", pipe]),
    ];
    let runs = bed.watch(&programs, Ending::Itself, || bed.replay());
    for ((name, args), runs) in programs.into_iter().zip(runs) {
        let [stock, ours] = succeeded(runs);
        assert_same(&format!("{name} {args:?}"), &stock.output.stdout, &ours.output.stdout);
        assert!(!ours.output.stdout.is_empty());
    }
}

#[test]
fn privileged_tcpdump_tells_directions_apart() {
    if !privileged::require() || !Program::require(&["tcpdump", "ping"]) {
        return;
    }
    let bed = Bed::new();
    let there = bed.pair.b.address.to_string();
    let ping = || drop(bed.near.run("ping", ["-n", "-c", "5", "-i", "0.05", &there]));

    let args = ["in", "out", "inout"].map(|way| [&ALL[..], &["-Q", way]].concat());
    let programs: Vec<_> = args.iter().map(|args| ("tcpdump", &args[..])).collect();
    let runs = bed.watch(&programs, Ending::Interrupt, ping);
    for (runs, expected) in runs.into_iter().zip([5, 5, 10]) {
        let runs = succeeded(runs).map(|run| run.without(COUNTED));
        assert_alike("-Q", &runs);
        assert_eq!(runs[0].output.stdout.matches("ICMP echo").count(), expected);
    }

    // The stock library runs a new filter itself on the packets of the first block, without their
    // direction.
    let args = ["inbound", "outbound"].map(|way| [&ALL[..], &[way]].concat());
    let programs: Vec<_> = args.iter().map(|args| ("tcpdump", &args[..])).collect();
    for runs in bed.watch(&programs, Ending::Interrupt, ping) {
        let [stock, ours] = succeeded(runs).map(|run| run.output.stdout);
        assert_eq!(ours.matches("ICMP echo").count(), 5);
        assert!(ours.ends_with(&*stock), "{stock}{ours}");
    }
}

#[test]
fn privileged_tcpdump_listens_where_there_is_no_card() {
    if !privileged::require() || !Program::require(&["tcpdump", "ping"]) {
        return;
    }
    let bed = Bed::new();
    let args = ["lo", "any"].map(|name| ["-i", name, "-n", "-t", "-e", "-x", "icmp"]);
    let programs = [("tcpdump", &args[0][..]), ("tcpdump", &args[1][..])];
    let ping = || drop(bed.near.run("ping", ["-n", "-c", "5", "-i", "0.05", "127.0.0.1"]));
    for runs in bed.watch(&programs, Ending::Interrupt, ping) {
        let runs = succeeded(runs).map(|run| run.without(COUNTED));
        assert_alike("tcpdump", &runs);
        assert!(runs[0].output.stdout.contains("ICMP echo reply"));
    }
}

#[test]
fn privileged_tcpdump_lists_and_refuses_the_same() {
    if !privileged::require() || !Program::require(&["tcpdump"]) {
        return;
    }
    let bed = Bed::new();
    bed.near.run("ip", ["link", "add", "idle0", "type", "veth", "peer", "name", "idle1"]);
    let cases: [&[&str]; 17] = [
        &["-D"],
        &["-i", "@", "-L"],
        &["-i", "lo", "-L"],
        &["-i", "any", "-L"],
        &["-i", "@", "-J"],
        &["-i", "@", "-d", "tcp port 80 and host 192.0.2.1"],
        &["-i", "@", "-d", "vlan and udp"],
        &["-i", "@", "-dd", "inbound and ip6"],
        &["-i", "@", "-s", "96", "-ddd", "icmp"],
        &["-i", "@", "no such word"],
        &["-i", "@", "wlan type mgt"],
        &["-i", "nosuch0"],
        &["-i", "a-name-that-is-longer-than-any-interface"],
        &["-i", "@", "-y", "IEEE802_11"],
        &["-i", "@", "-j", "adapter", "-c", "1", "no such word"],
        &["-i", "@", "-I"],
        &["-i", "idle0", "-c", "1"],
    ];
    for args in cases {
        let runs = bed.each("tcpdump", args).map(|run| run.without("wirelane:"));
        assert_alike(&format!("{args:?}"), &runs);
    }
}

#[test]
fn privileged_tcpdump_waits_for_a_link_that_is_down_and_ends_with_its_interface() {
    if !privileged::require() || !Program::require(&PROGRAMS) {
        return;
    }
    let bed = Bed::new();
    let ip = |args: &[&str]| drop(bed.near.run("ip", args));
    let mut running = Library::BOTH.map(|library| bed.spawn(library, "tcpdump", &ALL));
    for it in &mut running {
        it.wait_until_listening();
    }
    ip(&["link", "set", bed.interface(), "down"]);
    ip(&["link", "set", bed.interface(), "up"]);
    bed.replay();
    for it in &mut running {
        it.wait_until_quiet();
    }
    ip(&["link", "delete", bed.interface()]);
    let runs = running.map(|it| it.end(Ending::Itself));
    assert_alike("tcpdump", &runs);
    assert!(runs[0].output.stdout.contains("www.example.org"));
}

#[test]
fn tcpdump_reads_and_writes_the_same_files() {
    if !Program::require(&["tcpdump"]) {
        return;
    }
    let cases: [&[&str]; 10] = [
        &["-r", "traffic.pcap", "-n", "-tttt", "-e", "-vv", "-XX"],
        &["-r", "traffic.pcap", "-n", "-w", "out", "udp"],
        &["-r", "traffic.pcap", "-n", "-c", "5", "tcp port 80"],
        &["-r", "traffic.pcap", "-n", "vlan and udp"],
        &["-r", "traffic.pcap", "-d", "vlan and udp"],
        &["-r", "traffic.pcap", "-C", "1", "-w", "part"],
        &["-r", "traffic.pcap", "inbound"],
        &["-r", "/dev/null"],
        &["-r", "no-such-file"],
        &["-r", "/etc/passwd"],
    ];
    for args in cases {
        let runs = offline("tcpdump", args);
        assert_alike(&format!("{args:?}"), &runs);
        let [stock, ours] = runs.map(|run| run.files(&[]));
        assert_eq!(stock, ours, "{args:?}");
    }
}
