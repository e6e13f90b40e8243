//! BIG TCP: packets over IPv6 that are longer than their length field can say.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{fs, thread};

use wirelane_testkit::privileged;

use super::bridge::Bridge;
use super::*;

const LEFT: &str = "fd99::1";
const RIGHT: &str = "fd99::2";
const BYTES: usize = 64 << 20;
/// The longest packet that the stack sends.
const LONGEST: &str = "180000";

fn bridge() -> Bridge {
    let bridge = Bridge::new(1);
    let Bridge { left, middle, right, near, far } = &bridge;
    for (ns, end) in [(left, &near.a), (middle, &near.b), (middle, &far.a), (right, &far.b)] {
        let sizes = ["gso_max_size", LONGEST, "gro_max_size", LONGEST];
        ns.run("ip", [&["link", "set", "dev", &end.interface][..], &sizes].concat());
    }
    for (ns, end, address) in [(left, &near.a, LEFT), (right, &far.b, RIGHT)] {
        let path = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", end.interface);
        ns.inside(|| fs::write(path, "0").unwrap());
        let address = format!("{address}/64");
        ns.run("ip", ["-6", "address", "add", &address, "dev", &end.interface, "nodad"]);
    }
    bridge
}

/// Other content at each place of a period that no length of a packet divides.
fn content() -> Vec<u8> {
    (0..BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends the content to the right. Returns the time that it took.
fn transfer(bridge: &Bridge) -> Duration {
    let listener = bridge.right.inside(|| TcpListener::bind((RIGHT, 0)).unwrap());
    let at: SocketAddr = listener.local_addr().unwrap();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut got = Vec::with_capacity(BYTES);
        stream.read_to_end(&mut got).unwrap();
        got
    });
    let content = content();
    let since = Instant::now();
    let mut stream = bridge.left.inside(|| TcpStream::connect_timeout(&at, PATIENCE).unwrap());
    stream.write_all(&content).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let got = receiver.join().unwrap();
    let time = since.elapsed();
    assert!(got == content, "{} of {BYTES} bytes, or other ones", got.len());
    time
}

#[test]
fn privileged_big_tcp_passes_whole_and_fast() {
    /// In bit/s; with other segmentation and retransmissions it is a fraction.
    const LEAST: f64 = 100e6;
    if !privileged::require() {
        return;
    }
    let bridge = bridge();
    let running = bridge.forward(&[]);
    let time = transfer(&bridge);
    let rate = BYTES as f64 * 8.0 / time.as_secs_f64();
    let [bytes, packets] = ["rx_bytes", "rx_packets"].map(|name| bridge.near.b.statistic(name));
    running.0.interrupt();
    let ended = running.0.wait(PATIENCE);
    let summary = parse(&ended.stdout);
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{summary}");
    eprintln!("{:.0} Mbit/s, {} bytes per packet", rate / 1e6, bytes / packets);
    // Most are longer than any without BIG TCP.
    assert!(bytes / packets > 65_536, "{} bytes per packet", bytes / packets);
    assert!(rate > LEAST, "{:.0} Mbit/s: {summary}", rate / 1e6);
}
