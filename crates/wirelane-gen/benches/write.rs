//! Measures nanoseconds per packet of templates and the generator, without sending: `cargo bench -p
//! wirelane-gen`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use wirelane_gen::signature::{self, SignatureKey};
use wirelane_gen::{Generator, PacketSource, Rate, Recipe, Sizes, Stream, ThreadShare};

const RUNS: u32 = 100;
const PACKETS: u64 = 20_000;

fn main() {
    let cases = [
        ("constant", "udp"),
        ("2 fields", "ipv4 dst=10.0.0.0/16 udp src=1024-65535"),
        ("5 fields", "ipv4 id=0-65535 src=10.0.0.0/16 dst=10.1.0.0/16 udp src=1-9 dst=1,2,3"),
        ("2 random", "ipv4 src=10.0.0.0/8@random udp src=random"),
        ("ipv6, 2 fields", "ipv6 src=2001:db8::/64 udp src=1-1000"),
        ("tunnel, 3 fields", "vxlan vni=1-100 ipv4 src=10.0.0.0/24 udp src=1-9"),
    ];
    for (name, text) in cases {
        let recipe: Recipe = text.parse().unwrap();
        for len in [64, 1500] {
            let template = recipe.compile(0).unwrap();
            let mut cursor = template.cursor(0, 1);
            let mut packet = vec![0; len.max(template.min_len())];
            report(&format!("template, {name}, {len} bytes"), || {
                cursor.write(&template, black_box(&mut packet));
            });
        }
    }
    for (name, rate, sizes) in [
        ("as fast as possible", "max", "64"),
        ("packets per second", "5Mpps", "64"),
        ("bits per second, IMIX", "6Gbit", "imix"),
    ] {
        for (streams, fields) in [(1, ""), (1, "src=10.0.0.0/16"), (1000, ""), (100_000, "")] {
            let title = format!("generator, {streams} streams, {name} {fields}");
            let text = |i: usize| match fields {
                "" => format!("ipv4 src=10.{}.{}.{} udp", i >> 16, i >> 8 & 255, i & 255),
                fields => format!("ipv4 {fields} udp"),
            };
            generate(&title, (0..streams).map(text), rate.parse().unwrap(), sizes, 0);
        }
    }
    let one = || std::iter::once("ipv4 src=10.0.0.0/16 udp".to_owned());
    generate("generator, signed", one(), Rate::Max, "64", signature::LEN);
    // Each stream has a separate schedule: measures the cost of the heap.
    for streams in [100, 1000, 10_000, 100_000] {
        let streams: Vec<_> = (0..streams)
            .map(|i| {
                let recipe = "udp".parse().unwrap();
                let mut stream = Stream::new("s", &recipe, None, 0).unwrap();
                stream.rate = Rate::Packets(10.0 + f64::from(i) / 1000.0);
                stream
            })
            .collect();
        let title = format!("generator, {} streams with rates of their own", streams.len());
        run(&title, streams);
    }
}

fn generate(
    title: &str,
    texts: impl Iterator<Item = String>,
    rate: Rate,
    sizes: &str,
    signed: usize,
) {
    let sizes: Sizes = sizes.parse().unwrap();
    let streams = texts.map(|text| {
        let mut stream = Stream::new("s", &text.parse().unwrap(), Some(&sizes), signed).unwrap();
        stream.rate = rate;
        stream
    });
    run(title, streams.collect());
}

fn run(title: &str, streams: Vec<Stream>) {
    let mut generator =
        Generator::new(streams.into(), ThreadShare::ALL, Some(SignatureKey(1))).unwrap();
    let mut packet = vec![0; 2048];
    report(title, || {
        let departure = generator.next().unwrap().unwrap();
        generator.write(black_box(&mut packet[..departure.len]), departure.at);
    });
}

/// Reports the best of many short runs, which other processes disturb least.
fn report(title: &str, mut packet: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|word| !title.contains(&word)) {
        return;
    }
    let best = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..PACKETS).for_each(|_| packet());
            start.elapsed().as_nanos() as f64 / PACKETS as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("{title:<70} {best:6.1} ns");
}
