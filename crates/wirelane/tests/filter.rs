//! The kernel's filter on a real interface, where the kernel removes VLAN tags from packets before
//! it filters.

#![allow(clippy::unwrap_used)]

// The expressions and packets with which wirelane-filter compares its engines.
#[path = "../../wirelane-filter/tests/filter/corpus.rs"]
mod corpus;
#[path = "../../wirelane-filter/tests/filter/dice.rs"]
mod dice;
#[path = "../../wirelane-filter/tests/filter/packets.rs"]
mod packets;

use self::corpus::Expression;

use std::thread;
use std::time::{Duration, Instant};

use wirelane::filter::Filter;
use wirelane::mask::QueueMask;
use wirelane::pcap::CaptureReader;
use wirelane::port::{self, OpenOptions, Port, Readiness};
use wirelane::{Batch, QueueSet};
use wirelane_filter::{Interpreter, Packet, compile};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{privileged, tools};

/// The number of bytes that compiled expressions accept.
const SNAPLEN: u32 = 262_144;

/// Stops the port and returns the received frames. Checks that the port counts all `sent` frames
/// that were sent after its start, including frames that the filter rejected. Frames that the host
/// sends do not count.
fn finish(port: &mut Port, sent: usize) -> Vec<Vec<u8>> {
    port.control().stop();
    let mut got = Vec::new();
    let mut received = 0;
    let mut batch = Batch::default();
    for mut rx in port.rx().unwrap() {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            rx.receive(&mut batch);
            got.extend(batch.iter().map(|frame| frame.data().to_vec()));
            batch.clear();
            match rx.readiness().unwrap() {
                Readiness::End => break,
                Readiness::Now => {}
                _ => thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < patience, "no end");
        }
        let stats = rx.counters().snapshot(0);
        let parts = stats.filtered.unwrap() + stats.packets + stats.dropped.total().unwrap();
        assert_eq!(stats.received, Some(parts));
        if stats.class != "tx" {
            received += parts;
        }
    }
    assert_eq!(received, sent as u64);
    got
}

#[test]
fn privileged_a_live_port_takes_what_the_bytes_say() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-flt", 1);
    let frames: Vec<_> = packets::corpus();
    let frames: Vec<_> = frames.iter().filter(|frame| (60..1515).contains(&frame.len())).collect();
    let expressions = corpus::expressions().into_iter().filter(|expression| {
        let tag = expression.text.contains("vlan") || expression.text.contains("ether[1");
        expression.link_type == 1 && (tag || expression.text.len() % 29 == 0)
    });
    let (mut tagged, mut tried) = (0, 0);
    for expression in expressions.filter(|expression| !expression.text.contains("ifindex")) {
        let text = expression.text.as_str();
        let program = compile(text, 1, SNAPLEN).unwrap();
        let interpreter = Interpreter::new(&program).unwrap();
        let accepts = |frame: &&&Vec<u8>| {
            let wire_len = frame.len() as u32;
            interpreter.run(&Packet { data: frame, wire_len, ..Packet::default() }) > 0
        };
        let expected: Vec<_> = frames.iter().filter(accepts).map(|frame| frame.to_vec()).collect();
        let mask = QueueMask { rx: QueueSet::All, ..QueueMask::NONE };
        let options = OpenOptions::default()
            .mask(QueueMask { enabled: true, ..mask })
            .filter(text.parse::<Filter>().unwrap());
        let spec = "packet:wl-flt?ring=4Mi&block=4Ki&retire=2ms".parse().unwrap();
        let mut port = ns.inside(|| port::open(&spec, &options)).unwrap();
        port.start().unwrap();
        frames.iter().for_each(|frame| tap.write(0, frame));
        let got = finish(&mut port, frames.len());
        assert_eq!(got.len(), expected.len(), "{text}");
        assert!(got == expected, "{text}");
        tagged += got.iter().filter(|frame| frame[12..14] == [0x81, 0]).count();
        tried += 1;
    }
    assert!(tried > 60 && tagged > 500, "{tried} expressions, {tagged} frames with tags");
}

#[test]
fn privileged_a_live_filter_can_change() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-flc", 1);
    let options = OpenOptions::default().filter("ip".parse::<Filter>().unwrap());
    let spec = "packet:wl-flc?ring=4Mi&block=4Ki&retire=2ms".parse().unwrap();
    let mut port = ns.inside(|| port::open(&spec, &options)).unwrap();
    let control = port.control();
    let frame = |ethertype: [u8; 2]| {
        let mut frame = vec![0xff; 60];
        frame[12..14].copy_from_slice(&ethertype);
        frame
    };
    let (ip, arp) = (frame([8, 0]), frame([8, 6]));
    let both = || [&ip, &arp].into_iter().for_each(|frame| tap.write(0, frame));
    both();
    port.start().unwrap();
    both();
    let arp_only: Filter = "arp".parse().unwrap();
    control.set_filter(Some(&arp_only)).unwrap();
    both();
    assert!(control.set_filter(Some(&"arp arp".parse().unwrap())).is_err());
    both();
    control.set_filter(None).unwrap();
    both();
    let got: Vec<_> =
        finish(&mut port, 8).into_iter().filter(|frame| *frame == ip || *frame == arp).collect();
    assert!(got == [&ip, &arp, &arp, &ip, &arp].map(Clone::clone), "{} frames", got.len());
}

/// tcpdump on a live interface captures the packets that the program for plain bytes accepts:
/// packets without a tag, with one tag, and with several. Each expression is tested with its
/// negation: a packet too many for one is missing for the other, which then does not end.
#[test]
fn privileged_a_filter_means_what_it_means_to_tcpdump_live() {
    const AT_ONCE: usize = 24;
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-fld", 1);
    let frames = packets::corpus();
    let frames: Vec<_> = frames.iter().filter(|frame| (60..1515).contains(&frame.len())).collect();
    // For these, the kernel refuses tcpdump's program, tcpdump has none, or the kernel shifts by
    // fewer bits than requested. Programs for a direction lose packets that arrive right after they
    // were attached: libpcap filters these again in user space, where the direction is unknown.
    let unlike = ["vlan and pppoes", "vlan and geneve", "ifindex", " << ", "inbound", "outbound"];
    let texts = corpus::expressions().into_iter().filter(|expression| {
        let is_like = !unlike.iter().any(|part| expression.text.contains(part));
        let is_chosen = expression.text.contains("vlan") || expression.text.len() % 4 == 0;
        expression.link_type == 1 && is_like && is_chosen && !expression.text.is_empty()
    });
    let pairs = texts.flat_map(|Expression { text, .. }| [format!("not ({text})"), text]);
    let cases = pairs.filter_map(|text| {
        // The negation of an expression that accepts all packets is refused.
        let interpreter = Interpreter::new(&compile(&text, 1, SNAPLEN).ok()?).unwrap();
        let accepts = |frame: &&&Vec<u8>| {
            let wire_len = frame.len() as u32;
            interpreter.run(&Packet { data: frame, wire_len, ..Packet::default() }) > 0
        };
        let expected: Vec<_> = frames.iter().filter(accepts).map(|frame| frame.to_vec()).collect();
        (!expected.is_empty()).then_some((text, expected))
    });
    let cases: Vec<_> = cases.collect();
    let directory = tempfile::tempdir().unwrap();
    let mut tagged = 0;
    for cases in cases.chunks(AT_ONCE) {
        let watch = |(number, (text, expected)): (usize, &(String, Vec<Vec<u8>>))| {
            let path = directory.path().join(number.to_string());
            let count = expected.len().to_string();
            let file = path.to_str().unwrap();
            let args = ["-i", "wl-fld", "-Q", "in", "-U", "-w", file, "-c", &count, "--", text];
            (ns.spawn("tcpdump", args), path)
        };
        let mut watchers: Vec<_> = cases.iter().enumerate().map(watch).collect();
        for (watcher, _) in &mut watchers {
            let listens = |watcher: &ChildGuard| watcher.stderr().contains("listening on");
            watcher.wait_until(Duration::from_secs(60), listens);
        }
        frames.iter().for_each(|frame| tap.write(0, frame));
        for ((watcher, path), (text, expected)) in watchers.into_iter().zip(cases) {
            let ended = watcher.wait(Duration::from_secs(60));
            assert!(!ended.stderr.contains("Kernel filter failed"), "{text}: {}", ended.stderr);
            let mut reader = CaptureReader::open(&path).unwrap();
            for frame in expected {
                let record = reader.next_record().unwrap().expect(text);
                assert!(record.data == frame, "{text}: {:02x?} not {frame:02x?}", record.data);
                tagged += usize::from(matches!(frame[12..14], [0x81, 0] | [0x88, 0xa8]));
            }
        }
    }
    assert!(cases.len() > 300 && tagged > 5000, "{} expressions, {tagged} frames", cases.len());
}
