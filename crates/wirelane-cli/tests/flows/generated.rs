//! Conversations with all kinds of errors on networks.

use std::path::Path;

use wirelane::pcap::{CaptureWriter, Direction, LINK_TYPE_ETHERNET, Record, Source, WriterOptions};
use wirelane::wire::{MacAddr, Tcp, TcpFlags, packet};
use wirelane_testkit::tools;

use crate::oracle;

const MILLISECOND: u64 = 1_000_000;

#[test]
fn flows_of_a_bad_network_are_those_of_the_oracle() {
    if !tools::require("tshark") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for seed in 1..=2 {
        let file = directory.path().join(format!("{seed}.pcapng"));
        write(&file, seed, 6_000);
        assert!(oracle::compare(&file, 10, 60) > 300);
    }
}

/// Xorshift64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Packets of some hosts in a few tagged networks: TCP with handshakes, gaps, retransmissions,
/// resets and reused ports, UDP and pings over both families, with pauses beyond the timeouts.
fn write(path: &Path, seed: u64, packets: usize) {
    let source = Source { name: "wire".into(), link_type: LINK_TYPE_ETHERNET, ..Source::default() };
    let options = WriterOptions::of_path(path);
    let mut writer = CaptureWriter::create(path, &[source], options, 0).unwrap();
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut time = 1_795_401_704_000_000_000;
    // By client and direction.
    let mut sequences = [[0_u32; 2]; 24];
    for sequence in sequences.iter_mut().flatten() {
        *sequence = dice.below(1 << 32) as u32;
    }
    let mut frame = [0; 2000];
    for _ in 0..packets {
        time += dice.one_of(&[1, 5, 20, 20, 20, 700, 2_500]) * MILLISECOND + dice.below(1_000);
        time += if dice.below(400) == 0 { 30_000 * MILLISECOND } else { 0 };
        let client = dice.below(24) as usize;
        let back = dice.below(2) as usize;
        let sequence = &mut sequences[client][back];
        let flags = match dice.below(24) {
            0..=1 if back == 0 => TcpFlags::SYN,
            0..=1 => TcpFlags::SYN.with(TcpFlags::ACK),
            2 => TcpFlags::FIN.with(TcpFlags::ACK),
            3 if dice.below(3) == 0 => TcpFlags::RST,
            _ => TcpFlags::ACK,
        };
        let len = if flags == TcpFlags::ACK { dice.one_of(&[0, 0, 1, 100, 500]) } else { 0 };
        let payload = vec![0; len];
        // Some segments are lost before the capture, some are retransmitted, some are late.
        let shift = dice.one_of(&[0, 0, 0, 0, 0, 0, 100, 600, -100, -500, -1, -600]);
        let begin = sequence.wrapping_add_signed(shift);
        let window = dice.one_of(&[0, 1_000, 60_000, 60_000]);
        let ports = [(40_000 + client / 2) as u16, 80];
        let [from, to] = [ports[back], ports[1 - back]];
        let header = Tcp { sequence: begin, flags, window, ..Tcp::between(from, to) };
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let mut link = packet::ethernet(mac, mac);
        if client.is_multiple_of(5) {
            link = link.vlan(7);
        }
        let (ttl, ecn) = (dice.one_of(&[64, 64, 63]), dice.one_of(&[0, 0, 3]));
        let is_udp = client % 7 == 3;
        let packet = if client.is_multiple_of(2) {
            let hosts = [[10, 0, 0, client as u8], [10, 0, 1, 1]];
            let [source, destination] = [hosts[back], hosts[1 - back]];
            let ip = link.ipv4(source.into(), destination.into()).ttl(ttl).ecn(ecn);
            if is_udp { ip.udp(from, to, &payload) } else { ip.tcp(header, &payload) }
        } else {
            let host = |last: u16| [0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into();
            let hosts = [host(client as u16), host(1000)];
            let [source, destination] = [hosts[back], hosts[1 - back]];
            let ip = link.ipv6(source, destination).ttl(ttl).ecn(ecn);
            if is_udp { ip.udp(from, to, &payload) } else { ip.tcp(header, &payload) }
        };
        let length = packet.emit(&mut frame).unwrap();
        let marks =
            u32::from(flags.contains(TcpFlags::SYN)) + u32::from(flags.contains(TcpFlags::FIN));
        *sequence = begin.wrapping_add(len as u32 + marks);
        let data = &frame[..length];
        let record = Record {
            interface: 0,
            timestamp: time,
            original_len: length as u32,
            direction: Direction::Unknown,
            data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}
