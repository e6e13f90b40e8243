//! Merged packets arrive unchanged, and each of them is counted.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};

use tempfile::{TempDir, tempdir};
use wirelane::Class;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets as build, privileged};

use super::wire::counter;
use super::*;

/// A file of packets, and the port that reads it.
fn file(packets: &[Vec<u8>]) -> (TempDir, String) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    let sources = [Source::new("in", Class::Rx, Some(0))];
    let options = WriterOptions::of_path(&path);
    let mut writer = CaptureWriter::create(&path, &sources, options, 0).unwrap();
    for (data, timestamp) in packets.iter().zip(1..) {
        let (interface, original_len) = (0, data.len() as u32);
        let direction = Direction::Unknown;
        writer.write(&Record { interface, timestamp, original_len, direction, data }).unwrap();
    }
    writer.finish(&[]).unwrap();
    let port = format!("file:{}", path.display());
    (directory, port)
}

/// Far more short datagrams than one frame of the kernel holds, and far fewer bytes.
#[test]
fn privileged_a_thousand_datagrams_of_a_flow_arrive() {
    if !privileged::require() {
        return;
    }
    const COUNT: u64 = 1000;
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let (from, to) = (&pair.a, &pair.b);
    let datagram = |number| {
        let packet = build::udp4(number).length(14 + 20 + 8 + 20);
        packet.macs(from.mac, to.mac).addresses(from.address, to.address).build()
    };
    let (_directory, source) = file(&(0..COUNT).map(datagram).collect::<Vec<_>>());
    let receiver = far.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 9)).unwrap());
    let sink = format!("packet:{}", from.interface);
    let args = ["forward", "-q", "--json", "--gso", "--gro", &source, &sink];
    let summary = summary(&output(near.command(WIRELANE).args(args)));
    assert_eq!(number(&summary["totals"]["received"]), COUNT, "{summary}");
    assert_eq!(number(&summary["totals"]["delivered"]), COUNT, "{summary}");
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{summary}");
    assert!(number(&summary["totals"]["merged"]) > COUNT / 2, "{summary}");
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut got, mut buffer) = (Vec::new(), [0; 64]);
    // They arrived before the command ended, except for packets that did not fit in the socket
    // buffer.
    let lost = counter(&far, "Udp", "RcvbufErrors");
    while (got.len() as u64) < COUNT - lost {
        let length = receiver.recv(&mut buffer).unwrap();
        assert_eq!(length, 20);
        got.push(u64::from_be_bytes(buffer[4..12].try_into().unwrap()));
    }
    assert!(got.is_sorted() && got.windows(2).all(|pair| pair[0] < pair[1]), "{got:?}");
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(receiver.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Between files, merging changes neither bytes nor the order within a flow.
#[test]
fn padding_trailers_and_tags_come_back() {
    let packet = |number: u64| {
        let packet = build::udp6(number).flow(number as u16 % 3).length(80);
        match number / 3 % 16 {
            0 => [packet.build(), vec![0; 6]].concat(),
            1 => [packet.build(), vec![number as u8; 9]].concat(),
            2 => packet.vlan(0).build(),
            _ => packet.build(),
        }
    };
    let packets: Vec<_> = (0..2000).map(packet).collect();
    let (directory, source) = file(&packets);
    let path = directory.path().join("out.pcapng");
    let summary = forward(&[&source, &format!("file:{}", path.display()), "--gso", "--gro"]);
    let merged = number(&summary["totals"]["merged"]);
    assert!(merged > 1000, "{summary}");
    assert_eq!(number(&summary["totals"]["received"]), 2000, "{summary}");
    let bytes: usize = packets.iter().map(Vec::len).sum();
    assert_eq!(of_port(&summary, "queues", 0, "bytes"), bytes as u64, "{summary}");
    let again = self::packets(&path).into_iter().map(|packet| packet.data);
    let by_flow = |packets: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut flows = BTreeMap::<_, Vec<_>>::new();
        packets.for_each(|packet| {
            let flow = build::sequence(&packet).unwrap() % 3;
            flows.entry(flow).or_default().push(packet);
        });
        flows
    };
    assert!(by_flow(&mut again.into_iter()) == by_flow(&mut packets.into_iter()));
}

/// Packets to a group are filtered when sent back: each merged packet counts.
#[test]
fn merged_packets_that_are_filtered_count_each() {
    let group = [1, 0, 0x5e, 0, 0, 1];
    let packet = |number| build::udp4(number).length(100).macs([2; 6], group).build();
    let (_directory, source) = file(&(0..500).map(packet).collect::<Vec<_>>());
    let summary = forward(&[&source, "sim:1", "--swap", "--gro"]);
    let totals = &summary["totals"];
    assert!(number(&totals["merged"]) > 400, "{summary}");
    let counts = ["received", "filtered", "delivered"].map(|key| number(&totals[key]));
    assert_eq!(counts, [500, 500, 0], "{summary}");
    assert_eq!(of_port(&summary, "queues", 0, "bytes"), 0, "{summary}");
}
