//! iperf3 in both directions between two stacks, while `wirelane offload` changes every offload of
//! a running `wirelane forward --gso --gro` at random, and files pass on the same link.
//!
//! In the usual tests it takes seconds.
//! `WIRELANE_SOAK_MINUTES=10 cargo test --release -p wirelane-cli --test forward -- --ignored --nocapture soak_`
//! takes as long as it says; `WIRELANE_SOAK_SEED` repeats the switching.
//!
//! `iperf3 --file` cannot verify a file: even over the loopback interface, iperf3 3.12 writes a
//! file that lacks its end and differs from the source ("contents of the received file may not
//! match", iperf3(1)). So files have separate sockets, and the receiving kernels check every packet
//! that iperf3 sends.
#![allow(clippy::print_stdout, reason = "figures for whoever runs it")]

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_testkit::oracle::Random;
use wirelane_testkit::{privileged, tools};

use super::wire::{LEFT, RIGHT, Wire, content, counter, of_class, summary_of};
use super::*;

/// Seconds without a byte in one direction that count as a stall. TCP may be silent for some
/// seconds after losses.
const STALL: usize = 10;
/// The time that iperf3 may need beyond the test's length.
const SLACK: Duration = Duration::from_secs(60);

/// A server in `right` that serves one client.
fn server(wire: &Wire, port: u16) -> ChildGuard {
    let mut command = wire.right.command("iperf3");
    command.args(["-s", "-1", "--forceflush", "-p", &port.to_string()]);
    let mut child = ChildGuard::spawn(&mut command);
    child.wait_until(PATIENCE, |child| child.stdout().contains("Server listening"));
    child
}

/// Both ways at the same time, from `left` to a server.
fn client(wire: &Wire, address: &str, port: u16, time: Duration) -> ChildGuard {
    let mut command = wire.left.command("iperf3");
    let (port, seconds) = (port.to_string(), time.as_secs().to_string());
    command.args(["-c", address, "-p", &port, "-t", &seconds, "--bidir", "-i", "1", "--json"]);
    ChildGuard::spawn(&mut command)
}

/// Runs a client with `args` to its end; what it reports.
#[track_caller]
fn report(wire: &Wire, address: &str, args: &[&str]) -> Value {
    let server = server(wire, 5201);
    let mut command = wire.left.command("iperf3");
    command.args(["-c", address, "--json", "--connect-timeout", "20000"]).args(args);
    let ended = ChildGuard::spawn(&mut command).wait(SLACK);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}: {}", report["error"], ended.stderr);
    assert_eq!(server.wait(SLACK).status.code(), Some(0));
    report
}

/// Bytes that arrived each way according to a client, without a stall.
#[track_caller]
fn bytes_each_way(client: ChildGuard, time: Duration) -> [u64; 2] {
    let ended = client.wait(time + SLACK);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}: {}", report["error"], ended.stderr);
    ["", "_bidir_reverse"].map(|way| {
        let seconds = report["intervals"].as_array().unwrap();
        let bytes = |second: &Value| number(&second[format!("sum{way}")]["bytes"]);
        let silent = seconds.iter().map(|second| bytes(second) == 0).collect::<Vec<_>>();
        let longest = silent.split(|silent| !silent).map(<[bool]>::len).max();
        assert!(longest < Some(STALL), "no byte for {longest:?} s: {}", report["intervals"]);
        number(&report["end"][format!("sum_received{way}")]["bytes"])
    })
}

/// A counter of TCP in a namespace.
#[track_caller]
fn tcp_counter(ns: &Namespace, name: &str) -> u64 {
    counter(ns, "Tcp", name)
}

/// Arguments of `wirelane offload` that change a random setting.
fn turn(dice: &mut Random) -> [String; 4] {
    let port = dice.below(2).to_string();
    let (switch, value) = match dice.below(5) {
        0 | 1 => ("--gso", ["off", "tcp", "udp", "on"][dice.below(4) as usize].to_owned()),
        2 | 3 => ("--gro", ["off", "tcp", "udp", "on"][dice.below(4) as usize].to_owned()),
        _ => ("--gso-max", (576 + dice.below(65_536 - 576)).to_string()),
    };
    ["--port".into(), port, switch.into(), value]
}

/// Puts load on a forwarder to `wire_spec` for this time.
fn disturb(wire_spec: &str, time: Duration) {
    let named = env::var("WIRELANE_SOAK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = named.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    println!("{wire_spec}, {} s, seed {seed}", time.as_secs());
    let wire = Wire::new();
    let options = ["--gso", "--gro", "--keep-privileges"];
    let forward = wire.forward(&options, "tap:wl-tap", wire_spec);
    let pid = forward.id().to_string();
    let servers = [server(&wire, 5201), server(&wire, 5202)];
    let clients = [client(&wire, RIGHT[0], 5201, time), client(&wire, RIGHT[1], 5202, time)];
    let until = Instant::now() + time;
    let (ended, files) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut ways, mut turns) = (Vec::new(), 0);
    thread::scope(|scope| {
        let turner = scope.spawn(|| {
            let (mut dice, mut turns) = (Random::new(seed), 0_u64);
            while !ended.load(Ordering::Relaxed) {
                let change = turn(&mut dice);
                let done = output(wirelane(["offload", &pid]).args(&change));
                assert_eq!(done.status.code(), Some(0), "{change:?}: {}", done.stderr);
                turns += 1;
                thread::sleep(Duration::from_micros(dice.below(100_000)));
            }
            turns
        });
        let (wire, files) = (&wire, &files);
        let sender = scope.spawn(move || {
            let mut dice = Random::new(seed ^ 1);
            while Instant::now() < until {
                let content = content(1 + dice.below(1 << 20) as usize);
                let family = dice.below(2) as usize;
                match dice.below(2) {
                    0 => Wire::transfer(&wire.left, &wire.right, RIGHT[family], &content),
                    _ => Wire::transfer(&wire.right, &wire.left, LEFT[family], &content),
                }
                files.fetch_add(1, Ordering::Relaxed);
            }
        });
        let measured = clients.into_iter().map(|client| {
            // The other threads must end in any case.
            std::panic::catch_unwind(|| bytes_each_way(client, time))
        });
        let measured: Vec<_> = measured.collect();
        let sent = sender.join();
        ended.store(true, Ordering::Relaxed);
        turns = turner.join().unwrap();
        sent.unwrap();
        ways.extend(measured.into_iter().map(Result::unwrap));
    });
    for server in servers {
        assert_eq!(server.wait(SLACK).status.code(), Some(0));
    }
    // `InErrs` also counts repeated handshakes on a busy machine (`tcp_validate_incoming`).
    let wrong = [&wire.left, &wire.right].map(|ns| tcp_counter(ns, "InCsumErrors"));
    assert_eq!(wrong, [0, 0], "packets came whose checksum is wrong");
    let retransmitted = [&wire.left, &wire.right].map(|ns| tcp_counter(ns, "RetransSegs"));
    // While the forwarder does not segment, the device gets short packets. TCP sends as many as the
    // device's queue holds, and learns from drops there: nearly all retransmissions have this
    // cause.
    let dropped = wire.tap_statistic("tx_dropped");
    let summary = summary_of(forward);
    for port in [0, 1] {
        assert_eq!(of_port(&summary, "tx", port, "errors"), 0, "{summary}");
    }
    let cut: u64 =
        ["tcp4", "tcp6"].map(|c| of_class(&summary, "gso", c, "super_frames")).iter().sum();
    let merged = number(&summary["totals"]["merged"]);
    assert!(cut > 0 && merged > 0 && turns > 0, "{cut} cut, {merged} merged, {turns} turns");
    for way in &ways {
        assert!(way.iter().all(|bytes| *bytes > 0), "{ways:?}");
    }
    println!(
        "{ways:?} bytes over IPv4 and IPv6 each way, {} files whole, {turns} turns of switches, {cut} long \
         frames cut, {merged} packets merged, {retransmitted:?} segments sent again, {dropped} packets dropped by the \
         queue of the TAP device",
        files.into_inner()
    );
}

/// A given number of bytes each way over IPv6: segmented when sent, merged when received, without a
/// loss.
#[test]
fn privileged_iperf3_over_ipv6_is_cut_and_merged() {
    if !privileged::require() || !tools::require("iperf3") {
        return;
    }
    const BYTES: u64 = 24 << 20;
    for backend in ["packet:IF?vnet=off", "xdp:IF"] {
        if is_refused_for_tags(backend) {
            continue;
        }
        let wire = Wire::new();
        let forward = wire.forward(&["--gso", "--gro"], "tap:wl-tap", backend);
        for reverse in [&[][..], &["--reverse"]] {
            let report = report(&wire, RIGHT[1], &[&["-n", &BYTES.to_string()], reverse].concat());
            // The last bytes may be in flight when iperf3 reports, at most the socket buffers.
            let sent = number(&report["end"]["sum_sent"]["bytes"]);
            assert!(sent >= BYTES, "{backend} {reverse:?}: {sent}");
            assert!(number(&report["end"]["sum_received"]["bytes"]) > BYTES / 2, "{report}");
        }
        let wrong = [&wire.left, &wire.right].map(|ns| tcp_counter(ns, "InCsumErrors"));
        assert_eq!(wrong, [0, 0], "packets came whose checksum is wrong");
        let summary = summary_of(forward);
        for (table, port) in [("gso", 1), ("gro", 0)] {
            let of = |key| of_class(&summary, table, "tcp6", key);
            let (frames, segments) = (of("super_frames"), of("segments"));
            assert!(frames > 0 && segments > frames, "{backend} {table}: {summary}");
            assert_eq!(of_port(&summary, "tx", port, "errors"), 0, "{backend}: {summary}");
        }
        assert_eq!(of_class(&summary, "gso", "tcp4", "super_frames"), 0, "{summary}");
    }
}

/// A given number of datagrams over IPv4, each longer than the wire's packets: they arrive whole or
/// not at all.
#[test]
fn privileged_iperf3_datagrams_are_cut_to_fragments() {
    if !privileged::require() || !tools::require("iperf3") {
        return;
    }
    const DATAGRAMS: u64 = 400;
    const LENGTH: u64 = 9000;
    for backend in ["packet", "xdp"] {
        if is_refused_for_tags(backend) {
            continue;
        }
        let wire = Wire::new();
        // Otherwise Linux sends datagrams with "don't fragment".
        wire.left.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", "1").unwrap());
        let forward = wire.forward(&["--gso"], "tap:wl-tap?mtu=9500", backend);
        let (bytes, length) = ((DATAGRAMS * LENGTH).to_string(), LENGTH.to_string());
        let args = ["-u", "-b", "50M", "-l", &length, "-n", &bytes];
        let report = report(&wire, RIGHT[0], &args);
        // Losses that iperf3 reports may have other causes: a receiver without CPU time loses some,
        // and the last ones are not counted.
        let sent = number(&report["end"]["sum"]["packets"]);
        assert!(sent >= DATAGRAMS, "{backend}: {}", report["end"]);
        let of_right = |protocol, name| counter(&wire.right, protocol, name);
        let whole = of_right("Ip", "ReasmOKs");
        assert_eq!(of_right("Udp", "InCsumErrors"), 0, "{backend}");
        assert!(of_right("Udp", "InDatagrams") > 0, "{backend}: {}", report["end"]);
        let summary = summary_of(forward);
        let of = |key| of_class(&summary, "gso", "frag4", key);
        let fragments = (LENGTH + 8).div_ceil(1480);
        let cut = of("super_frames");
        assert!(
            whole > 0 && whole <= cut && cut <= sent,
            "{backend}: {whole} of {sent}: {summary}"
        );
        assert_eq!(of("segments"), cut * fragments, "{backend}: {summary}");
        assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{backend}: {summary}");
    }
}

#[test]
fn privileged_iperf3_passes_while_switches_turn() {
    if !privileged::require() || !tools::require("iperf3") {
        return;
    }
    for wire in ["packet", "xdp"] {
        if is_refused_for_tags(wire) {
            continue;
        }
        disturb(wire, Duration::from_secs(5));
    }
}

#[test]
#[ignore = "takes as long as WIRELANE_SOAK_MINUTES says"]
fn soak_iperf3() {
    let minutes = env::var("WIRELANE_SOAK_MINUTES").ok().and_then(|text| text.parse().ok());
    let half = Duration::from_secs(30 * minutes.unwrap_or(10));
    for wire in ["packet", "xdp"] {
        if is_refused_for_tags(wire) {
            continue;
        }
        disturb(wire, half);
    }
}
