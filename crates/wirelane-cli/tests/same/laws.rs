//! The table of laws for single commands.

use std::fmt::Debug;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::{TempDir, tempdir};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, Output, output, run};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets as frames, privileged};

use crate::answer::{self, Line};
use crate::forms::{FORMS, NAME};
use crate::live::Live;
use crate::shared::WIRELANE;
use crate::traffic::{Packet, TRAFFIC, at, in_service_vlan};

/// A row: `Err` says how the law is broken. A row with the number of a fault is broken today.
struct Law {
    name: &'static str,
    pending: Option<u32>,
    holds: fn() -> Result<(), String>,
}

const fn law(name: &'static str, pending: Option<u32>, holds: fn() -> Result<(), String>) -> Law {
    Law { name, pending, holds }
}

const LAWS: &[Law] = &[
    law("a second rotation keeps the files of the first", None, a_second_rotation),
    law("send keeps its input", None, || keeps_its_input("send -q file:IN x.pcapng")),
    law("flows keeps its input", None, || keeps_its_input("flows -q -r IN -w IN")),
    law("capture keeps its input", None, || keeps_its_input("capture -q -r IN -w IN")),
    law("convert keeps its input", None, || keeps_its_input("convert x.pcapng IN")),
    law("merge keeps its input", None, || keeps_its_input("merge x.pcapng -w IN")),
    law("send fails if it sends nothing", None, send_that_sends_nothing),
    law("capture -r keeps the order of the file", None, keeps_the_order),
    law("capture a b has the packets of merge a b", None, same_as_merge),
    law("send -c 1 does not wait for the second packet", None, does_not_wait),
    law("sim: has the flows of its file", None, || same_as_file("flows -q --format json IN")),
    law("sim: has the counts of its file", None, || same_as_file("count -q --json IN --by host")),
];

const PRIVILEGED: &[Law] = &[
    law("a reader that is stopped for a second loses nothing", None, a_stopped_reader),
    law("a frame that is rejected stalls no other", None, a_rejected_frame),
    law("flows of a quiet port are reported", None, a_quiet_port),
    law("lo has each packet once", None, loopback),
    law("the kernel engine sends the packets that sockets send", None, engines),
];

#[test]
fn laws_hold() {
    check(LAWS);
}

#[test]
fn privileged_laws_hold() {
    if privileged::require() {
        check(PRIVILEGED);
    }
}

#[track_caller]
fn check(laws: &[Law]) {
    let mut wrong = Vec::new();
    for Law { name, pending, holds } in laws {
        match (pending, holds()) {
            (None, Err(how)) => wrong.push(format!("{name}: {how}")),
            (Some(fault), Ok(())) => wrong
                .push(format!("row {name} passes now: remove its pending mark (fault {fault})")),
            (_, outcome) => eprintln!("{name}: {outcome:?}, pending: {pending:?}"),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn equal<T: PartialEq + Debug>(is: &T, expected: &T) -> Result<(), String> {
    let short = |value: &T| format!("{value:?}").chars().take(300).collect::<String>();
    if is == expected { Ok(()) } else { Err(format!("{}, not {}", short(is), short(expected))) }
}

/// The packets of a row of traffic.
fn traffic(name: &str) -> Vec<Packet> {
    (TRAFFIC.iter().find(|row| row.name == name).unwrap().make)()
}

/// A directory with these packets in `x.pcapng`.
fn directory(packets: &[Packet]) -> TempDir {
    let directory = tempdir().unwrap();
    (FORMS[0].write)(packets, directory.path());
    directory
}

/// Runs the words for a minute at most.
fn ended(directory: &Path, line: &str) -> Output {
    ended_by(Process::new("timeout"), directory, line)
}

/// The same by timeout(1) of a namespace.
fn ended_by(mut timeout: Process, directory: &Path, line: &str) -> Output {
    timeout.args(["-s", "INT", "-k", "5", "60", WIRELANE]).args(line.split(' '));
    output(timeout.current_dir(directory))
}

fn a_second_rotation() -> Result<(), String> {
    let packets = traffic("one-way flows");
    let directory = directory(&packets);
    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    let line = "capture -q -r x.pcapng -w files/t.pcapng --rotate-packets 10";
    let first = ended(directory.path(), line);
    equal(&first.status.code(), &Some(0))?;
    let second = ended(directory.path(), line);
    let runs = if second.status.success() { 2 } else { 1 };
    equal(&answer::packets("", &files).len(), &(runs * packets.len()))
}

/// The file is unchanged, also under its other names, whether the command succeeds or not.
fn keeps_its_input(line: &str) -> Result<(), String> {
    let directory = directory(&traffic("conversations"));
    let file = directory.path().join("x.pcapng");
    let before = fs::read(&file).unwrap();
    fs::hard_link(&file, directory.path().join("hard.pcapng")).unwrap();
    symlink(&file, directory.path().join("link.pcapng")).unwrap();
    // A name without the suffix of a capture file.
    fs::hard_link(&file, directory.path().join("x.csv")).unwrap();
    for name in ["x.pcapng", "hard.pcapng", "link.pcapng", "x.csv"] {
        ended(directory.path(), &line.replace("IN", name));
        let after = fs::read(&file).map(|bytes| bytes == before);
        equal(&after.unwrap_or_default(), &true).map_err(|_| format!("{name} has changed"))?;
    }
    Ok(())
}

fn send_that_sends_nothing() -> Result<(), String> {
    let directory = directory(&[at(0, 0, frames::raw(1).repeat(100))]);
    equal(&ended(directory.path(), "send -q sim:1 x.pcapng").status.code(), &Some(1))
}

fn keeps_the_order() -> Result<(), String> {
    let packets = traffic("decreasing times");
    let directory = directory(&packets);
    let printed = ended(directory.path(), "capture -q -n -tt -r x.pcapng").stdout;
    let times: Vec<_> =
        answer::lines(&printed, directory.path()).into_iter().map(|it| it.time).collect();
    let expected = packets
        .iter()
        .map(|it| format!("{}.{:06}", it.time / 1_000_000_000, it.time / 1000 % 1_000_000));
    equal(&times, &expected.collect())
}

/// Packets that alternate between two files, and a second file that is older than the first.
fn same_as_merge() -> Result<(), String> {
    for row in ["conversations", "100 packets/s for a minute", "gaps of a minute"] {
        let packets = traffic(row);
        let is_later = |at: usize| at >= packets.len() / 2;
        for is_first in [&(|at: usize| at.is_multiple_of(2)) as &dyn Fn(usize) -> bool, &is_later] {
            let part = |wanted: bool| -> TempDir {
                let places = packets.iter().enumerate();
                let part = places.filter(|(at, _)| is_first(*at) == wanted);
                directory(&part.map(|(_, packet)| packet.clone()).collect::<Vec<_>>())
            };
            let [first, second] = [part(true), part(false)];
            let files =
                [&first, &second].map(|it| it.path().join("x.pcapng").display().to_string());
            let made = |line: String| -> Result<Vec<(String, String)>, String> {
                let to = tempdir().unwrap();
                equal(&ended(to.path(), &line).status.code(), &Some(0))?;
                let lines = answer::packets("", to.path()).into_iter();
                Ok(lines.map(|Line { text, time, .. }| (time, text)).collect())
            };
            let [a, b] = &files;
            let captured = made(format!("capture -q file:{a} file:{b} -w y.pcapng"))?;
            equal(&captured, &made(format!("merge {a} {b} -w y.pcapng"))?)?;
            equal(&captured.len(), &packets.len())?;
        }
    }
    Ok(())
}

fn does_not_wait() -> Result<(), String> {
    let hour = 3_600_000_000_000;
    let directory = directory(&[0, 1].map(|n| at(n * hour, 0, frames::udp4(n).build())));
    let ended = ended(directory.path(), "send -q file:y.pcapng x.pcapng -c 1");
    equal(&ended.status.code(), &Some(0))
}

/// A simulated port has the same packets each time.
fn same_as_file(line: &str) -> Result<(), String> {
    let (directory, port) = (tempdir().unwrap(), "sim:4?count=2000&flows=60&seed=5");
    let capture = format!("capture -q {port} -w x.pcapng");
    equal(&ended(directory.path(), &capture).status.code(), &Some(0))?;
    let read = if line.starts_with("flows") { answer::flows } else { answer::counts };
    let [live, file] = [port, "file:x.pcapng"].map(|port| {
        let printed = ended(directory.path(), &line.replace("IN", port)).stdout;
        let lines = read(&printed, directory.path()).into_iter();
        let mut texts: Vec<_> = lines.map(|Line { text, .. }| text).collect();
        texts.sort();
        texts
    });
    equal(&live, &file)
}

/// 100 packets in a second, with the default rings of a port.
fn a_stopped_reader() -> Result<(), String> {
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, NAME, 4);
    let lines = ["capture -q --json wl0 -w x.pcapng", "count -q --json wl0", "flows -q --json wl0"];
    let start = |line: &&str| Live::start(&ns, line, tempdir().unwrap());
    let mut running: Vec<_> = lines.iter().map(start).collect();
    running.iter_mut().for_each(Live::wait_until_ready);
    running.iter().for_each(|live| live.signal(Signal::STOP));
    for number in 0..100 {
        tap.write(number % 4, &frames::udp4(number as u64).build());
        thread::sleep(Duration::from_millis(10));
    }
    running.iter().for_each(|live| live.signal(Signal::CONT));
    for mut live in running {
        let summary: serde_json::Value = serde_json::from_str(&live.finish(100)?).unwrap();
        equal(&summary["totals"]["delivered"], &100.into())?;
    }
    Ok(())
}

/// The peer refuses a frame with two tags that is longer than its MTU.
fn a_rejected_frame() -> Result<(), String> {
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    near.run("ip", ["link", "set", &pair.a.interface, "mtu", "1600"]);
    let frame = |n: u64| match n {
        10 => in_service_vlan(frames::udp4(n).vlan(7).length(1518).build()),
        _ => frames::udp4(n).build(),
    };
    let packets: Vec<_> = (0..21).map(|n| at(n * 1_000_000, 0, frame(n))).collect();
    let directory = directory(&packets);
    let line = format!("send -q packet:{} x.pcapng", pair.a.interface);
    ended_by(near.command("timeout"), directory.path(), &line);
    equal(&pair.b.statistic("rx_packets"), &20)
}

/// One of four queues received all packets; no other packet follows.
fn a_quiet_port() -> Result<(), String> {
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, NAME, 4);
    let line = "flows -q --format json --idle-timeout 1s wl0";
    let mut flows = Live::start(&ns, line, tempdir().unwrap());
    flows.wait_until_ready();
    (0..20).for_each(|n| tap.write(0, &frames::udp4(n).flow(n as u16).build()));
    let lines = || flows.printed().lines().count();
    for _ in 0..600 {
        if lines() == 20 {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    equal(&lines(), &20)
}

fn loopback() -> Result<(), String> {
    let ns = Namespace::new();
    let mut capture = Live::start(&ns, "capture -q lo udp -w x.pcapng", tempdir().unwrap());
    capture.wait_until_ready();
    let socket = ns.inside(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    let to = socket.local_addr().unwrap();
    for number in 0..10 {
        socket.send_to(&[number], to).unwrap();
    }
    capture.finish(10)?;
    equal(&answer::packets("", capture.directory.path()).len(), &10)
}

/// Two TX queues send while one of their CPUs is busy. The identification of a packet is its
/// number.
fn engines() -> Result<(), String> {
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    pair.b.ethtool(&["-K", &pair.b.interface, "gro", "on"]);
    for engine in ["sockets", "kernel"] {
        let line = format!("capture -q packet:{} udp -w x.pcapng", pair.b.interface);
        let mut capture = Live::start(&far, &line, tempdir().unwrap());
        capture.wait_until_ready();
        let packet = ["--packet", "ipv4 id=0-65535 udp", "--rate", "1kpps", "-c", "1000"];
        let busy = ["-c", "1", "sh", "-c", "while :; do :; done"];
        let _busy = [(); 3].map(|()| ChildGuard::spawn(Process::new("taskset").args(busy)));
        let send = ["send", "-q", &pair.a.interface, "--engine", engine];
        run(near.command(WIRELANE).args(send).args(packet));
        capture.finish(1000)?;
        let file: PathBuf = capture.directory.path().join("x.pcapng");
        let packets = crate::shared::packets(file).into_iter();
        let mut numbers: Vec<_> =
            packets.map(|it| u16::from_be_bytes([it.data[18], it.data[19]])).collect();
        numbers.sort_unstable();
        equal(&numbers, &(0..1000).collect()).map_err(|how| format!("{engine}: {how}"))?;
    }
    Ok(())
}
