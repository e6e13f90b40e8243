//! The size of a flow on disk, from which `docs/scale.md` computes.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use wirelane_flow::ipfix::Pipe;
use wirelane_flow::{EndReason, Flow, Half};
use wirelane_wire::{Protocol, TcpFlags};

use wirelane_testkit::files;

/// 2026-11-23, 02:00:00.
const START: u64 = 1_795_399_200_000_000_000;
const FLOWS: u64 = 50_000;

/// Marsaglia's xorshift: the same numbers every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// A number below `end`, small ones more often: 10 to 100 is as likely as 100 to 1000.
    fn skewed(&mut self, end: u64) -> u64 {
        let share = self.below(1 << 20) as f64 / (1 << 20) as f64;
        (end as f64).powf(share) as u64 - 1
    }
}

/// A TCP conversation. Few clients and servers are busy; sizes and times differ by decades.
fn conversation(random: &mut Random, number: u64) -> Flow {
    let address = |network: u32, host: u64| IpAddr::V4(Ipv4Addr::from(network + host as u32));
    let (octets, back) = (40 + random.skewed(100_000), 40 + random.skewed(10_000_000));
    let (start, rtt) = (
        START + number * 6_000_000 + random.below(6_000_000),
        100_000 + random.skewed(100_000_000),
    );
    let end = start + 3 * rtt + random.skewed(60_000_000_000);
    let half = |octets: u64, start, end, ttl: u64| Half {
        packets: 5 + octets / 1400,
        octets,
        payload: octets - 40,
        start,
        end,
        tcp_flags: TcpFlags::from_bits(0x1b),
        min_ttl: ttl as u8,
        max_ttl: ttl as u8,
        ..Half::default()
    };
    let mut flow = Flow::default();
    flow.key.source = address(0x0a00_0000, random.skewed(20_000));
    flow.key.destination = address(0x2000_0000, random.skewed(1_000_000) * 977);
    flow.key.source_port = 32_768 + random.below(28_232) as u16;
    flow.key.destination_port = [443, 443, 443, 80, 22, 8443][random.below(6) as usize];
    flow.key.protocol = Protocol::TCP;
    flow.forward = half(octets, start, end - rtt / 2, 64);
    flow.reverse = half(back, start + rtt, end, 40 + random.below(24));
    flow.handshake_rtt = Some(rtt);
    flow.end = EndReason::Ended;
    flow.interface = "eth0".into();
    flow.community.fill_with(|| random.next() as u8);
    flow
}

#[test]
fn a_flow_takes_as_many_bytes_as_the_manual_says() {
    let directory = tempfile::tempdir().unwrap();
    let (mut messages, mut random) = (Vec::new(), Random(0x2545_f491_4f6c_dd1d));
    let mut pipe = Pipe::new(&mut messages);
    (0..FLOWS).for_each(|number| pipe.add(&conversation(&mut random, number)).unwrap());
    pipe.flush().unwrap();
    let mut sink = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    let mut sink = sink.arg("sink").arg(directory.path()).stdin(Stdio::piped()).spawn().unwrap();
    sink.stdin.take().unwrap().write_all(&messages).unwrap();
    assert!(sink.wait().unwrap().success());
    let bytes: u64 =
        files::below(directory.path()).iter().map(|it| fs::metadata(it).unwrap().len()).sum();
    let each = bytes as f64 / FLOWS as f64;
    assert!((95.0..105.0).contains(&each), "{each}");
}
