//! Measures the cost of a segment on one core, for Wirelane and for `gso_split` of `tun-rs`: `cargo
//! bench -p wirelane-bench --bench segment`.
//!
//! Every round measures each case once. A first round warms up and is discarded. The CPU is one
//! with few device interrupts ([`Quiet`]). Each figure is the median of the rounds, followed by the
//! best round. The last lines give ratios within a round, and the rate of checksums.
//!
//! `-- tcp4` measures only cases whose names contain it. `-- --vectors avx2` limits checksums to
//! AVX2.
#![allow(clippy::expect_used, clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;
use wirelane::internal::checksum::Vectors;

use wirelane::internal::segment::SegmentClass;
use wirelane_bench::statistics::quiet::Quiet;
use wirelane_bench::suites::gso::segment::{
    MSS, PAYLOAD, SegmentForm, checksum_rate, segment, super_frame,
};
use wirelane_wire::ethernet;

const TURNS: usize = 200;
const ROUNDS: usize = 40;

/// The name, the figures so far, and the function that measures the case.
type SegmentCase = (String, Vec<f64>, Box<dyn FnMut() -> f64>);

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--vectors").skip(1);
    if let Some(name) = arguments.next() {
        let most = Vectors::ALL.into_iter().find(|vectors| vectors.as_str() == name);
        Vectors::limit(most.expect("--vectors avx512, avx2 or portable"));
    }
    println!("sums by {}", Vectors::used().as_str());
    let quiet = Quiet::choose().unwrap();
    let interrupts = quiet.interrupts.map_or("an unknown number of".to_owned(), |n| n.to_string());
    println!("on CPU {}, which had {interrupts} interrupts of devices", quiet.cpu);
    quiet.run(measure).unwrap();
}

fn measure() {
    let is_name = |argument: &String| {
        !argument.starts_with('-') && Vectors::ALL.iter().all(|one| one.as_str() != argument)
    };
    let only = std::env::args().skip(1).find(is_name);
    let mut cases: Vec<SegmentCase> = Vec::new();
    for class in SegmentClass::ALL {
        for (form, name) in [(SegmentForm::Copy, "copy"), (SegmentForm::Slices, "slices")] {
            // Less than 64 KB with the headers of any class, and of the right size for fragments.
            let (payload, mss) =
                if class == SegmentClass::Tcp4 { (PAYLOAD, MSS) } else { (44 * 1424, 1424) };
            let (frame, offload) = super_frame(class, payload, mss as u16).unwrap();
            let turn = move || segment(&frame, &offload, form, TURNS).unwrap();
            cases.push((format!("{} {name}", class.as_str()), Vec::new(), Box::new(turn)));
        }
    }
    for (class, name) in [(SegmentClass::Tcp4, "tcp4"), (SegmentClass::Tcp6, "tcp6")] {
        cases.push((format!("{name} tun-rs"), Vec::new(), tun_rs(class)));
    }
    for round in 0..=ROUNDS {
        for (name, figures, turn) in &mut cases {
            if only.as_deref().is_none_or(|only| name.contains(only)) {
                let figure = turn();
                figures.extend((round > 0).then_some(figure));
            }
        }
    }
    for (name, figures, _) in cases.iter().filter(|(_, figures, _)| !figures.is_empty()) {
        let (median, best) = (median(figures), figures.iter().copied().fold(f64::MAX, f64::min));
        println!("{name:16} {median:7.2} ns/segment, best {best:7.2}");
    }
    let of = |name: &str| cases.iter().find(|(own, ..)| own == name).map(|(_, figures, _)| figures);
    for (class, form) in
        [("tcp4", "copy"), ("tcp4", "slices"), ("tcp6", "copy"), ("tcp6", "slices")]
    {
        let pair = of(&format!("{class} {form}")).zip(of(&format!("{class} tun-rs")));
        let (own, other) = pair.unwrap();
        let ratios: Vec<_> = own.iter().zip(other).map(|(own, other)| other / own).collect();
        if !ratios.is_empty() {
            println!("{class} {form:7} {:7.2} times as fast as tun-rs", median(&ratios));
        }
    }
    for length in [64, 1460, 1500, 65_536] {
        if only.as_deref().is_some_and(|only| !"checksum".contains(only)) {
            continue;
        }
        let rate = (0..ROUNDS).map(|_| checksum_rate(length, 2000)).fold(0.0, f64::max);
        println!("checksum {length:7} {rate:7.2} GB/s");
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The split of `tun-rs` over the same packet, without its Ethernet header.
fn tun_rs(class: SegmentClass) -> Box<dyn FnMut() -> f64> {
    const BUFFER: usize = 2048;
    let v6 = class == SegmentClass::Tcp6;
    let (payload, mss) = if v6 { (44 * 1424, 1424) } else { (PAYLOAD, MSS) };
    let (frame, _) = super_frame(class, payload, mss as u16).unwrap();
    let original = frame[ethernet::LEN..].to_vec();
    let mut packet = original.clone();
    let network = if v6 { 40 } else { 20 };
    let header = tun_rs::VirtioNetHdr {
        flags: 1,
        gso_type: if v6 { 4 } else { 1 },
        hdr_len: network + 20,
        gso_size: mss as u16,
        csum_start: network,
        csum_offset: 16,
    };
    let mut buffers = vec![vec![0_u8; BUFFER]; 64];
    let mut sizes = vec![0; 64];
    Box::new(move || {
        let (mut segments, begin) = (0, Instant::now());
        for _ in 0..TURNS {
            // It clears fields of its input.
            packet[..60].copy_from_slice(&original[..60]);
            let input = black_box(&mut packet[..]);
            let split = tun_rs::gso_split(input, header, &mut buffers, &mut sizes, 0, v6).unwrap();
            black_box(&mut buffers);
            segments += split;
        }
        begin.elapsed().as_nanos() as f64 / segments as f64
    })
}
