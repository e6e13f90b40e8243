//! Features of a port that libpcap's programs need: verbatim filters, the number of packets that
//! passed the filter, and injecting packets that the port itself does not receive.

use wirelane::filter::{Filter, Program};
use wirelane::internal::port::Passed;
use wirelane::mask::Class;
use wirelane::port::OpenOptions;
use wirelane_filter::op::{Ancillary, Cond, Op, Operand, Width};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets, privileged};

use super::*;

fn program(ops: &[Op]) -> Program {
    Program::new(1, ops.iter().map(|op| op.encode()).collect()).unwrap()
}

/// A program that accepts packets for which `load` returns this number.
fn equal(load: Op, number: u32) -> Program {
    let cond = Op::Branch { cond: Cond::Equal, operand: Operand::K(number), jt: 0, jf: 1 };
    program(&[load, cond, Op::Return(u32::MAX), Op::Return(0)])
}

#[test]
fn privileged_a_verbatim_program_sees_packets_as_the_kernel_has_them() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-verb", 2);
    let ip = equal(Op::LoadAbsolute(Width::Half, 12), 0x0800);
    let tagged = equal(Op::LoadAncillary(Ancillary::VlanPresent), 1);
    // The accumulator starts as 0, even if the queue selection has used it.
    let zero = program(&[
        Op::Branch { cond: Cond::Equal, operand: Operand::K(0), jt: 0, jf: 1 },
        Op::Return(u32::MAX),
        Op::Return(0),
    ]);
    for (filter, expected) in [
        (Filter::from(ip.clone()), vec![1, 3]),
        (Filter::verbatim(ip), vec![0, 1, 2, 3]),
        (Filter::verbatim(tagged), vec![0, 2]),
        (Filter::verbatim(zero), vec![0, 1, 2, 3]),
    ] {
        let options = OpenOptions::default().filter(filter.clone()).snaplen(70);
        let mut port = quick(&ns, "wl-verb", &options);
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        for n in 0..4_u64 {
            let packet = packets::udp4(n).length(200);
            let packet = if n % 2 == 0 { packet.vlan(5) } else { packet };
            tap.write(n as usize / 2, &packet.build());
        }
        let got = finish(&*port.control(), &mut ends);
        let mut seen: Vec<u64> = (0..2).flat_map(|q| sequences(&got, Class::Rx, q)).collect();
        seen.sort_unstable();
        assert_eq!(seen, expected, "{filter}");
        assert!(got.iter().all(|got| got.bytes.len() == 70));
        assert_conserved(&port);
    }
}

#[test]
fn privileged_what_passed_is_known_before_it_is_received() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-pass", 2);
    let options = OpenOptions::default();
    let spec = "packet:wl-pass?ring=64Ki&block=16Ki&retire=2ms";
    let mut port = open(&ns, spec, &options).unwrap();
    let (mut ends, control) = (port.rx().unwrap(), port.control());
    port.start().unwrap();
    let passed = || control.passed().unwrap().unwrap();
    assert_eq!(passed(), Passed::default());
    (0..10).for_each(|n| tap.write(0, &packets::raw(n)));
    assert_eq!(passed(), Passed { packets: 10, dropped: 0 });
    // More packets than the ring of this queue can hold.
    (10..1000).for_each(|n| tap.write(1, &packets::udp4(n).length(1000).build()));
    let full = passed();
    assert_eq!(full.packets, 1000);
    assert!((900..990).contains(&full.dropped), "{full:?}");
    let got = finish(&*control, &mut ends);
    assert_eq!(got.len() as u64 + full.dropped, 1000);
    assert_eq!(passed(), full, "each is counted once, whoever asks");
    let kernel = ends.iter().map(|rx| rx.counters().snapshot(0).dropped.kernel.unwrap());
    assert_eq!(kernel.sum::<u64>(), full.dropped);
}

#[test]
fn privileged_what_is_injected_leaves_and_is_not_seen() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-inj", 2);
    let mut port = quick(&ns, "wl-inj", &OpenOptions::default());
    let mut witness = quick(&ns, "wl-inj", &OpenOptions::default());
    let (mut ends, mut others) = (port.rx().unwrap(), witness.rx().unwrap());
    port.start().unwrap();
    witness.start().unwrap();
    let control = port.control();
    let frame = packets::udp4(7).build();
    for wait in [true, false] {
        assert_eq!(control.inject(&frame, wait).unwrap().unwrap(), frame.len());
    }
    let long = control.inject(&[0; 9000], true).unwrap().unwrap_err();
    assert_eq!(long.raw_os_error(), Some(rustix::io::Errno::MSGSIZE.raw_os_error()));
    let left: Vec<_> =
        tap.drain().iter().filter_map(|(_, bytes)| packets::sequence(bytes)).collect();
    assert_eq!(left, [7, 7]);
    let seen = finish_after(&*witness.control(), &mut others, 2);
    assert_eq!(seen.iter().filter(|got| got.class == Class::Tx).count(), 2);
    assert!(finish(&*control, &mut ends).is_empty());
}
