//! Ports that share an interface: each packet is received by one of them.

use std::collections::BTreeMap;

use wirelane::internal::port::ProgramOptions;
use wirelane::mask::Class;
use wirelane::port::OpenOptions;
use wirelane_os::iface;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets, privileged};

use super::selection::host;
use super::*;

const PORTS: usize = 4;

/// Opens a port that shares the interface of `spec`, and starts it.
fn sharing(ns: &Namespace, spec: &str, options: &OpenOptions) -> PacketPort {
    let separator = if spec.contains('?') { '&' } else { '?' };
    let quick = QUICK.trim_start_matches('?');
    let mut port = open(ns, &format!("packet:{spec}{separator}{quick}"), options).unwrap();
    port.start().unwrap();
    port
}

/// Receives until all ports together have `count` packets, then stops them. Returns the packets of
/// each.
fn collect(ports: &mut [(PacketPort, Vec<Rx>)], count: usize) -> Vec<Vec<Got>> {
    let mut got: Vec<Vec<Got>> = ports.iter().map(|_| Vec::new()).collect();
    eventually(|| {
        for ((_, ends), got) in ports.iter_mut().zip(&mut got) {
            ends.iter_mut().for_each(|rx| {
                take(rx, got);
            });
        }
        got.iter().map(Vec::len).sum::<usize>() >= count
    });
    for ((port, ends), got) in ports.iter_mut().zip(&mut got) {
        got.extend(finish(&*port.control(), ends));
        assert_conserved(port);
        let counted: u64 = ends.iter().map(|rx| rx.counters().snapshot(0).packets).sum();
        assert_eq!(counted, got.len() as u64);
    }
    got
}

fn with_ends(mut port: PacketPort) -> (PacketPort, Vec<Rx>) {
    let ends = port.rx().unwrap();
    assert_eq!(ends.len(), 1, "a port that shares has one ring");
    (port, ends)
}

/// All sequence numbers, in order.
fn all(got: &[Vec<Got>]) -> Vec<u64> {
    let mut all: Vec<_> = got.iter().flatten().filter_map(|got| got.sequence).collect();
    all.sort_unstable();
    all
}

#[test]
fn privileged_ports_share_flows_and_have_every_packet_once() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 800;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-flow", 4);
    let host = host(&ns, "wl-flow");
    let open = |_| with_ends(sharing(&ns, "wl-flow?share=flow:3", &OpenOptions::default()));
    let mut ports: Vec<_> = (0..PORTS).map(open).collect();
    let flow = |n: u64| (n % 40) as u16;
    for n in 0..SENT {
        let frame = packets::udp4(n).flow(flow(n)).build();
        // Half of the packets arrive from outside, and the host sends the others.
        match n % 80 < 40 {
            true => tap.write((n % 4) as usize, &frame),
            false => assert_eq!(host.send_frame(&frame).unwrap(), frame.len()),
        }
    }
    let got = collect(&mut ports, SENT as usize);
    assert_eq!(all(&got), (0..SENT).collect::<Vec<_>>());
    let mut owners = BTreeMap::new();
    for (port, got) in got.iter().enumerate() {
        for sequence in got.iter().filter_map(|got| got.sequence) {
            let owner = *owners.entry(flow(sequence)).or_insert(port);
            assert_eq!(owner, port, "the packets of a flow go to one port, in both directions");
        }
        assert!(got.iter().all(|got| got.class == Class::Other));
    }
    assert!(got.iter().filter(|got| !got.is_empty()).count() > 1, "40 flows are spread");
}

#[test]
fn privileged_both_directions_of_a_connection_go_to_one_port() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-both", 2);
    let open = |_| with_ends(sharing(&ns, "wl-both?share=flow", &OpenOptions::default()));
    let mut ports: Vec<_> = (0..PORTS).map(open).collect();
    for n in 0..64_u64 {
        let (near, far) = ([10, 0, 0, 1], [10, 0, 1, (n / 2) as u8]);
        let frame = match n % 2 {
            0 => packets::udp4(n).addresses(near, far),
            _ => packets::udp4(n).addresses(far, near),
        };
        let mut bytes = frame.build();
        if n % 2 == 1 {
            // Swap the port numbers, too.
            bytes[34..38].rotate_left(2);
        }
        tap.write(0, &bytes);
    }
    let got = collect(&mut ports, 64);
    assert_eq!(all(&got), (0..64).collect::<Vec<_>>());
    for got in &got {
        let pairs = all(std::slice::from_ref(got));
        assert!(pairs.chunks(2).all(|pair| pair.len() == 2 && pair[0] + 1 == pair[1]), "{pairs:?}");
    }
}

#[test]
fn privileged_ports_share_queues_evenly() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 200;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-queue", 4);
    let open = |_| with_ends(sharing(&ns, "wl-queue?share=queue", &OpenOptions::default()));
    let mut ports: Vec<_> = (0..PORTS).map(open).collect();
    (0..SENT).for_each(|n| tap.write((n % 4) as usize, &packets::raw(n)));
    let got = collect(&mut ports, SENT as usize);
    assert_eq!(all(&got), (0..SENT).collect::<Vec<_>>());
    for (port, got) in got.iter().enumerate() {
        let own: Vec<_> = got.iter().filter_map(|got| got.sequence).collect();
        assert_eq!(own, (0..SENT).filter(|n| n % 4 == port as u64).collect::<Vec<_>>());
    }
}

/// When a port is closed, the others receive its packets; a new port receives a share.
#[test]
fn privileged_ports_come_and_go() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-come", 2);
    let open = || with_ends(sharing(&ns, "wl-come?share=queue", &OpenOptions::default()));
    let write = |from: u64| {
        (from..from + 20).for_each(|n| tap.write((n % 2) as usize, &packets::raw(n)));
    };
    let mut first = [open()];
    let second = open();
    let mut second = [second];
    drop(open());
    write(0);
    let left = collect(&mut second, 10);
    assert_eq!(left[0].len(), 10);
    drop(second);
    write(20);
    let rest = collect(&mut first, 30);
    assert_eq!(all(&[left, rest].concat()), (0..40).collect::<Vec<_>>());
}

#[test]
fn privileged_masks_and_filters_select_of_the_share() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-some", 4);
    let host = host(&ns, "wl-some");
    let options = masked(mask(&[1, 2], &[], false));
    let open = |_| with_ends(sharing(&ns, "wl-some?share=flow", &options));
    let mut ports: Vec<_> = (0..PORTS).map(open).collect();
    let write = |from: u64| {
        for n in from..from + 40 {
            tap.write((n % 4) as usize, &packets::udp4(n).flow((n / 4) as u16).build());
            host.send_frame(&packets::udp4(1000 + n).flow((n / 4) as u16).build()).unwrap();
        }
    };
    write(0);
    // The mask changes between the packets.
    ports.iter().for_each(|(port, _)| port.control().set_mask(mask(&[3], &[], false)).unwrap());
    write(40);
    let filter = "greater 200".parse().unwrap();
    ports.iter().for_each(|(port, _)| port.control().set_filter(Some(&filter)).unwrap());
    write(80);
    tap.write(3, &packets::udp4(120).length(300).build());
    tap.write(2, &packets::udp4(121).length(300).build());
    let expected = (0..40).filter(|n| n % 4 == 1 || n % 4 == 2);
    let expected = expected.chain((40..80).filter(|n| n % 4 == 3)).chain([120]);
    let expected: Vec<u64> = expected.collect();
    assert_eq!(all(&collect(&mut ports, expected.len())), expected);
}

/// Ports with different group numbers, queues or ways of sharing are in different groups; each
/// group receives every packet.
#[test]
fn privileged_groups_are_apart() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-apart", 2);
    let rx = masked(mask(&[0, 1], &[], false));
    let groups = ["?share=flow", "?share=flow:1", "?share=queue", "@0?share=queue"];
    let mut ports: Vec<_> = groups
        .iter()
        .map(|group| with_ends(sharing(&ns, &format!("wl-apart{group}"), &OpenOptions::default())))
        .collect();
    // One port ignores outgoing packets, and one does not share.
    ports.push(with_ends(sharing(
        &ns,
        "wl-apart?share=flow",
        &rx.internal(ProgramOptions::default().outgoing(false)),
    )));
    let mut alone = quick(&ns, "wl-apart", &OpenOptions::default());
    let mut ends = alone.rx().unwrap();
    alone.start().unwrap();
    (0..20).for_each(|n| tap.write((n % 2) as usize, &packets::raw(n)));
    let got = collect(&mut ports, 4 * 20 + 10);
    let numbers = |wanted: fn(&u64) -> bool| (0..20).filter(wanted).collect::<Vec<_>>();
    for (place, got) in got.iter().enumerate() {
        let own = all(std::slice::from_ref(got));
        assert_eq!(own, numbers(if place == 3 { |n| n % 2 == 0 } else { |_| true }), "{place}");
    }
    assert_eq!(finish_after(&*alone.control(), &mut ends, 20).len(), 20);
}

#[test]
fn privileged_a_link_that_goes_down_does_not_end_sharing() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-flaps", 2);
    let open = |_| with_ends(sharing(&ns, "wl-flaps?share=queue", &OpenOptions::default()));
    let mut ports: Vec<_> = (0..2).map(open).collect();
    ns.inside(|| iface::down("wl-flaps").unwrap());
    ns.inside(|| iface::up("wl-flaps").unwrap());
    (0..20).for_each(|n| tap.write((n % 2) as usize, &packets::raw(n)));
    let mut got: Vec<Vec<Got>> = vec![Vec::new(), Vec::new()];
    assert!(eventually(|| {
        for ((_, ends), got) in ports.iter_mut().zip(&mut got) {
            take(&mut ends[0], got);
        }
        got.iter().all(|got| got.len() == 10)
    }));
    assert_eq!(all(&got), (0..20).collect::<Vec<_>>());
}

#[test]
fn privileged_what_cannot_be_shared_is_refused() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let _tap = MultiQueueTap::new(&ns, "wl-no", 1);
    let waiting = OpenOptions::default().wait(true);
    let error = open(&ns, "packet:wl-no?share=flow", &waiting).err().unwrap();
    assert!(error.to_string().contains("cannot wait"), "{error}");
}
