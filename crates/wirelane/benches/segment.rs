//! What a segment costs, on one core, beside the split of `tun-rs`:
//! `cargo bench -p wirelane --bench segment`.
//!
//! Every round measures every case once; each figure is the best of the rounds, because the machine
//! can only add time, never take it away.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use wirelane::bench::segment::{Form, MSS, PAYLOAD, checksum_rate, segment, super_frame};
use wirelane::segment::Class;
use wirelane_wire::ethernet;

const TURNS: usize = 200;
const ROUNDS: usize = 40;

/// Name, best figure so far, and what measures it.
type Case = (String, f64, Box<dyn FnMut() -> f64>);

fn main() {
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    let mut cases: Vec<Case> = Vec::new();
    for class in Class::ALL {
        for (form, name) in [(Form::Copy, "copy"), (Form::Slices, "slices")] {
            // Less than 64 KB with the headers of any class, and of the right size for fragments.
            let (payload, mss) =
                if class == Class::Tcp4 { (PAYLOAD, MSS) } else { (44 * 1424, 1424) };
            let (frame, offload) = super_frame(class, payload, mss as u16).unwrap();
            let turn = move || segment(&frame, &offload, form, TURNS).unwrap();
            cases.push((format!("{} {name}", class.as_str()), f64::MAX, Box::new(turn)));
        }
    }
    for (class, name) in [(Class::Tcp4, "tcp4"), (Class::Tcp6, "tcp6")] {
        cases.push((format!("{name} tun-rs"), f64::MAX, tun_rs(class)));
    }
    for _ in 0..ROUNDS {
        for (name, best, turn) in &mut cases {
            if only.as_deref().is_none_or(|only| name.contains(only)) {
                *best = best.min(turn());
            }
        }
    }
    for (name, best, _) in cases.iter().filter(|(_, best, _)| *best < f64::MAX) {
        println!("{name:16} {best:7.2} ns/segment");
    }
    for length in [64, 1460, 1500, 65_536] {
        if only.as_deref().is_some_and(|only| !"checksum".contains(only)) {
            continue;
        }
        let rate = (0..ROUNDS).map(|_| checksum_rate(length, 2000)).fold(0.0, f64::max);
        println!("checksum {length:7} {rate:7.2} GB/s");
    }
}

/// The split of `tun-rs` over the same packet, without its Ethernet header.
fn tun_rs(class: Class) -> Box<dyn FnMut() -> f64> {
    const BUFFER: usize = 2048;
    let v6 = class == Class::Tcp6;
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
