//! A filter selects the same packets with the outer VLAN tag removed by the kernel as with the tag
//! in the bytes.

use wirelane_filter::op::{Ancillary, Op};
use wirelane_filter::{Interpreter, Packet, Program, compile};

use super::corpus::{self, Expression};
use super::dice::Dice;
use super::{SNAPLEN, engines, packets, programs};

/// A packet as the kernel's socket filter has it: `skb_vlan_untag`.
struct Untagged {
    data: Vec<u8>,
    tag: Option<(u16, u16)>,
}

fn untag(frame: &[u8]) -> Untagged {
    let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    match (half(12), half(14)) {
        (Some(tpid @ (0x8100 | 0x88a8)), Some(tci)) => {
            Untagged { data: [&frame[..12], &frame[16..]].concat(), tag: Some((tpid, tci)) }
        }
        _ => Untagged { data: frame.to_vec(), tag: None },
    }
}

/// The program, with numbers in place of its questions about the tag.
fn answered(program: &Program, tag: Option<(u16, u16)>) -> Interpreter {
    let (tpid, tci) = tag.unwrap_or_default();
    let answer = |op: &Op| match *op {
        Op::LoadAncillary(Ancillary::VlanPresent) => Op::LoadImmediate(tag.is_some().into()),
        Op::LoadAncillary(Ancillary::VlanTci) => Op::LoadImmediate(tci.into()),
        Op::LoadAncillary(Ancillary::VlanTpid) => Op::LoadImmediate(tpid.into()),
        op => op,
    };
    let ops = program.ops().iter().map(|op| answer(op).encode()).collect();
    Interpreter::new(&Program::new(1, ops).unwrap()).unwrap()
}

/// Compares a program on the packet without its tag with the same for bytes; how many packets with
/// a tag were accepted.
fn compare(text: &str, kernel: &Program, bytes: &Program, frames: &[Vec<u8>]) -> usize {
    let on_bytes = Interpreter::new(bytes).unwrap();
    let mut accepted = 0;
    // Shorter frames are no Ethernet frames, and the test for a tag rejects them.
    for frame in frames.iter().filter(|frame| frame.len() >= 16) {
        let untagged = untag(frame);
        let run = |interpreter: &Interpreter, data: &[u8]| {
            let wire_len = data.len() as u32;
            interpreter.run(&Packet { data, wire_len, metadata: engines::METADATA })
        };
        let expected = run(&answered(kernel, untagged.tag), &untagged.data);
        let got = run(&on_bytes, frame);
        assert_eq!(got, expected, "{text} on {frame:02x?}\n{kernel}\n{bytes}");
        accepted += usize::from(got > 0 && untagged.tag.is_some());
    }
    accepted
}

#[test]
fn every_expression_means_what_it_means_to_the_kernel() {
    let frames = packets::corpus();
    let ethernet = corpus::expressions().into_iter().filter(|e| e.link_type == 1);
    let (mut tagged, mut with_tags) = (0, 0);
    for Expression { text, .. } in ethernet {
        let bytes = compile(&text, 1, SNAPLEN).unwrap();
        assert_eq!(bytes.note(), None);
        tagged += compare(&text, bytes.of_kernel(), &bytes, &frames);
        with_tags += usize::from(text.contains("vlan"));
    }
    assert!(tagged > 10_000 && with_tags > 40, "{tagged} packets, {with_tags} expressions");
}

#[test]
fn random_programs_mean_the_same_with_the_tag_in_the_bytes() {
    let frames = packets::corpus();
    let mut dice = Dice::new(11);
    let mut tagged = 0;
    for _ in 0..2000 {
        let kernel = programs::random(&mut dice);
        // It may use all of the scratch memory.
        let Ok(bytes) = kernel.for_bytes() else { continue };
        tagged += compare("random", &kernel, &bytes, &frames[..200.min(frames.len())]);
    }
    assert!(tagged > 1000, "{tagged}");
}

#[test]
fn udp_is_true_of_tagged_packets_and_tags_count_from_the_outer_one() {
    let frame = |types: &[u16]| {
        let words = types.iter().flat_map(|word| word.to_be_bytes());
        let mut frame: Vec<u8> = std::iter::repeat_n(2, 12).chain(words).collect();
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 53, 0, 53, 0, 8, 0, 0]);
        frame
    };
    let plain = frame(&[0x0800]);
    let tagged = frame(&[0x8100, 5, 0x0800]);
    let double = frame(&[0x88a8, 7, 0x8100, 5, 0x0800]);
    for (text, expected) in [
        ("udp", [true, true, false]),
        ("vlan", [false, true, true]),
        ("vlan 5", [false, true, false]),
        ("vlan 7", [false, false, true]),
        ("vlan 7 and vlan 5 and udp", [false, false, true]),
        ("vlan and udp", [false, true, false]),
        ("vlan and vlan", [false, false, true]),
        ("udp and not vlan", [true, false, false]),
        ("host 10.0.0.1", [true, true, false]),
        ("ether proto 0x8100", [false, false, true]),
        // Lengths are those without the tag.
        ("less 42", [true, true, false]),
        ("len = 46", [false, false, true]),
    ] {
        let program = compile(text, 1, SNAPLEN).unwrap();
        let interpreter = Interpreter::new(&program).unwrap();
        let accepts = |frame: &Vec<u8>| {
            let wire_len = frame.len() as u32;
            interpreter.run(&Packet { data: frame, wire_len, ..Packet::default() }) > 0
        };
        assert_eq!([&plain, &tagged, &double].map(accepts), expected, "{text}\n{program}");
    }
}

/// A true comparison of the type needs no test for a tag.
#[test]
fn tags_are_asked_for_last() {
    let program = compile("ip or arp", 1, SNAPLEN).unwrap();
    let comparisons: Vec<_> = program.ops().iter().take(6).collect();
    let value = |op: &Op| match *op {
        Op::Branch { operand: wirelane_filter::op::Operand::K(k), .. } => Some(k),
        _ => None,
    };
    let values: Vec<_> = comparisons.into_iter().filter_map(value).collect();
    assert_eq!(values, [0x800, 0x806, 0x8000, 0x8100, 0x88a8], "{program}");
}

/// A cooked packet has it before its protocol.
#[test]
fn tags_of_cooked_packets_are_found() {
    const LINUX_SLL: u16 = 113;
    let program = compile("udp port 53", LINUX_SLL, SNAPLEN).unwrap();
    let interpreter = Interpreter::new(&program).unwrap();
    for tag in [&[][..], &[0x81, 0, 0, 5]] {
        let mut packet = vec![0; 14];
        packet.extend_from_slice(tag);
        packet.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([0, 53, 0, 53, 0, 8, 0, 0]);
        let wire_len = packet.len() as u32;
        let verdict = interpreter.run(&Packet { data: &packet, wire_len, ..Packet::default() });
        assert!(verdict > 0, "{tag:?}\n{program}");
    }
}
