//! Compressing while writing, and reading it again, beside the programs `gzip`, `lz4` and `zstd`.
//!
//! `cargo bench -p wirelane-pcap --bench compression [-- MILLIONS_OF_BYTES]`. The same capture
//! file, in `/dev/shm`, is written by `CaptureWriter` from memory and compressed by the program of
//! each format, in turns, as fast as each can and on as many threads. Medians of seven rounds, of
//! elapsed time and of the CPU time of all threads. To keep: 0.9 of the program's rate at least,
//! and a file that is 5 % larger at most.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use wirelane_pcap::Class;
use wirelane_pcap::{
    CaptureReader, CaptureWriter, Compression, CompressionOptions, Direction, Record, Source,
    WriterOptions,
};

const ROUNDS: usize = 7;

fn main() {
    let argument = std::env::args().skip(1).find_map(|text| text.parse::<usize>().ok());
    let packets = packets(argument.unwrap_or(250) * 1_000_000);
    let plain = PathBuf::from(format!("/dev/shm/wirelane-bench-{}.pcapng", std::process::id()));
    write(&plain, &packets, None);
    let size = plain.metadata().unwrap().len();
    println!("{} packets, {:.1} MB: MB/s elapsed, MB/s of CPU time, MB", packets.len(), mega(size));
    for (text, program, arguments) in [
        ("gzip:1", "gzip", &["-1", "-c"][..]),
        ("gzip:6", "gzip", &["-6", "-c"]),
        ("lz4", "lz4", &["-1", "-c", "-q"]),
        ("zstd:1", "zstd", &["-1", "-c", "-q", "-T1"]),
        ("zstd:1,threads=2", "zstd", &["-1", "-c", "-q", "-T2"]),
        ("zstd:3", "zstd", &["-3", "-c", "-q", "-T1"]),
    ] {
        let options = CompressionOptions::parse(text).unwrap().unwrap();
        let suffix = options.compression.suffix();
        let [ours, theirs] =
            ["ours", "theirs"].map(|who| plain.with_extension(format!("{who}{suffix}")));
        let [mut writing, mut packing, mut reading, mut unpacking] = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            writing.push(timed(|| write(&ours, &packets, Some(options))));
            packing.push(timed(|| run(program, arguments, &plain, &theirs)));
            reading.push(timed(|| read(&ours, packets.len())));
            unpacking.push(timed(|| run(program, &["-d", "-c"], &theirs, Path::new("/dev/null"))));
        }
        let line = |name: &str, times: &mut Vec<(f64, f64)>, file: &Path| {
            let [elapsed, cpu] = medians(times).map(|seconds| mega(size) / seconds);
            let len = mega(file.metadata().unwrap().len());
            println!("  {name:32} {elapsed:8.0} {cpu:8.0} {len:8.1}");
        };
        line(&format!("write {text}"), &mut writing, &ours);
        line(&format!("  {program} {}", arguments.join(" ")), &mut packing, &theirs);
        line(&format!("read {suffix}"), &mut reading, &ours);
        line(&format!("  {program} -d -c"), &mut unpacking, &theirs);
        fs::remove_file(ours).unwrap();
        fs::remove_file(theirs).unwrap();
    }
    fs::remove_file(plain).unwrap();
}

/// Ethernet frames of three sizes (7 small, 4 middle, 1 large): headers that differ in a few bytes,
/// and behind them noise as of encrypted connections, words as of text, or zeros.
fn packets(volume: usize) -> Vec<Vec<u8>> {
    let mut state = 1u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words: Vec<[u8; 6]> =
        (0..4096).map(|_| next().to_le_bytes()[..6].try_into().unwrap()).collect();
    let (mut packets, mut bytes) = (Vec::new(), 0);
    while bytes < volume {
        let size = [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514][(next() % 12) as usize];
        let flow = next() % 1000;
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        packet.extend((size as u16 - 14).to_be_bytes());
        packet.extend((next() as u16).to_be_bytes());
        packet.extend([0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 1]);
        packet.extend((flow as u16).to_be_bytes());
        packet.extend([1, 187, 200, 0]);
        packet.extend((next() as u32).to_be_bytes());
        packet.extend([0, 0, 0, 0, 0x50, 0x10, 0xfa, 0xf0, 0, 0, 0, 0]);
        while packet.len() < size {
            match flow % 3 {
                _ if size == 60 => packet.push(0),
                0 => packet.extend(next().to_le_bytes()),
                1 => packet.extend(words[(next() % 4096 * (next() % 4096) / 4096) as usize]),
                _ => packet.extend([0; 8]),
            }
        }
        packet.truncate(size);
        bytes += size + 32;
        packets.push(packet);
    }
    packets
}

fn write(path: &Path, packets: &[Vec<u8>], compression: Option<CompressionOptions>) {
    let sources = [Source::new("sim", Class::Rx, Some(0))];
    let options = WriterOptions::of_path(path).compression(compression);
    let mut writer = CaptureWriter::create(path, &sources, options, 0).unwrap();
    for (number, data) in packets.iter().enumerate() {
        let record = Record {
            interface: 0,
            timestamp: 1_700_000_000_000_000_000 + number as u64 * 1_237,
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

fn read(path: &Path, packets: usize) {
    let mut reader = CaptureReader::open(path).unwrap();
    assert!(Compression::of_path(path) == reader.compression());
    while reader.advance().unwrap() {}
    assert_eq!(reader.packets(), packets as u64);
}

fn run(program: &str, arguments: &[&str], from: &Path, to: &Path) {
    let mut command = Command::new(program);
    command.args(arguments).arg(from).stdin(Stdio::null());
    assert!(command.stdout(fs::File::create(to).unwrap()).status().unwrap().success());
}

/// Seconds that passed, and seconds of CPU time of this process and of its children.
fn timed(run: impl FnOnce()) -> (f64, f64) {
    let (before, begin) = (cpu_seconds(), Instant::now());
    run();
    (begin.elapsed().as_secs_f64(), cpu_seconds() - before)
}

/// The times of `/proc/self/stat` (see proc_pid_stat(5)), in hundredths of a second.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields = text.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(4).map(|field| field.parse::<f64>().unwrap() / 100.0).sum()
}

fn medians(times: &[(f64, f64)]) -> [f64; 2] {
    [|time: &(f64, f64)| time.0, |time: &(f64, f64)| time.1].map(|of| {
        let mut times: Vec<_> = times.iter().map(of).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2].max(0.001)
    })
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
