//! Reading and writing capture files, compared with `pcap-file` and `pcap-parser`; writing to
//! `/dev/shm`, compared with `dd`.
//!
//! `cargo bench -p wirelane-pcap --bench capture_file [-- MILLIONS_OF_BYTES]`. Every figure is the
//! median of seven interleaved runs. The figures justify three decisions:
//! * whether this crate needs a separate reader and writer, instead of those crates;
//! * how large the chunks of `OutputFile` are;
//! * whether writing 1500-byte packets reaches 80 % of `dd bs=1M`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::borrow::Cow;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::pcapng::{PcapNgReader, PcapNgWriter};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError};
use wirelane_pcap::Class;
use wirelane_pcap::pcapng::{self, PcapngReader};
use wirelane_pcap::{CaptureWriter, Direction, Record, Section, Source, WriterOptions};

const RUNS: usize = 7;

/// One thing to measure: a name and what to run, which returns how long the measured part took.
type Case<'a> = (String, Box<dyn FnMut() -> Duration + 'a>);

fn main() {
    let argument = std::env::args().skip(1).find_map(|text| text.parse::<usize>().ok());
    let volume = argument.unwrap_or(200) * 1_000_000;
    for size in [64, 1500] {
        let count = volume / (size + 32);
        println!(
            "{size}-byte packets, {count} of them: median ns/packet (lowest to highest), Gbit/s of packets"
        );
        reading(size, count);
        writing(size, count);
    }
    chunks(volume);
    against_dd(volume);
}

fn reading(size: usize, count: usize) {
    let mut file = header();
    let data = vec![0x5a; size];
    (0..count).for_each(|index| pcapng::packet(&mut file, &record(index, &data)));
    let ours = || {
        let start = Instant::now();
        let mut reader = PcapngReader::new(file.as_slice(), "memory");
        let mut packets = 0;
        while let Some(record) = reader.next_record().unwrap() {
            black_box((record.timestamp, record.data));
            packets += 1;
        }
        assert_eq!(packets, count);
        start.elapsed()
    };
    let pcap_file = || {
        let start = Instant::now();
        let mut reader = PcapNgReader::new(file.as_slice()).unwrap();
        let mut packets = 0;
        while let Some(block) = reader.next_block() {
            if let pcap_file::pcapng::Block::EnhancedPacket(packet) = block.unwrap() {
                black_box((packet.timestamp, &packet.data));
                packets += 1;
            }
        }
        assert_eq!(packets, count);
        start.elapsed()
    };
    let pcap_parser = || {
        let start = Instant::now();
        let mut reader = pcap_parser::PcapNGReader::new(256 * 1024, file.as_slice()).unwrap();
        let mut packets = 0;
        loop {
            match reader.next() {
                Ok((offset, block)) => {
                    if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block {
                        black_box((packet.ts_high, packet.ts_low, packet.data));
                        packets += 1;
                    }
                    reader.consume(offset);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(packets, count);
        start.elapsed()
    };
    compare(
        vec![
            ("read  wirelane".into(), Box::new(ours)),
            ("read  pcap-parser".into(), Box::new(pcap_parser)),
            ("read  pcap-file".into(), Box::new(pcap_file)),
        ],
        |time| per_packet(time, count, size),
    );
}

/// Writing into a 256 KiB buffer that is emptied when it is full: encoding alone, without the
/// kernel.
fn writing(size: usize, count: usize) {
    const CHUNK: usize = 256 * 1024;
    let data = vec![0x5a; size];
    let ours = || {
        let mut out = Vec::with_capacity(2 * CHUNK);
        let start = Instant::now();
        for index in 0..count {
            pcapng::packet(&mut out, &record(index, black_box(&data)));
            if out.len() >= CHUNK {
                black_box(&out);
                out.clear();
            }
        }
        start.elapsed()
    };
    let pcap_file = || {
        let mut writer = PcapNgWriter::new(Vec::with_capacity(2 * CHUNK)).unwrap();
        let interface = InterfaceDescriptionBlock::new(pcap_file::DataLink::ETHERNET, 0);
        writer.write_pcapng_block(interface).unwrap();
        let start = Instant::now();
        for index in 0..count {
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(index as u64),
                original_len: size as u32,
                data: Cow::Borrowed(black_box(&data)),
                options: Vec::new(),
            };
            writer.write_pcapng_block(packet).unwrap();
            if writer.get_ref().len() >= CHUNK {
                black_box(writer.get_ref());
                writer.get_mut().clear();
            }
        }
        start.elapsed()
    };
    compare(
        vec![
            ("write wirelane".into(), Box::new(ours)),
            ("write pcap-file".into(), Box::new(pcap_file)),
        ],
        |time| per_packet(time, count, size),
    );
}

/// Which chunk size writes 1500-byte packets to `/dev/shm` fastest.
fn chunks(volume: usize) {
    println!("1500-byte packets to /dev/shm by bytes per write(2): median GB/s of file");
    let data = vec![0x5a; 1500];
    let path = shm_file("chunks");
    let count = volume / 1532;
    let cases = [16, 64, 128, 256, 512, 1024, 4096].into_iter().map(|kib| -> Case<'_> {
        let (data, path) = (&data, &path);
        let run = move || {
            let _ = fs::remove_file(path);
            let mut out = Vec::with_capacity(kib * 1024 + 2048);
            let start = Instant::now();
            let mut file = File::create(path).unwrap();
            for index in 0..count {
                pcapng::packet(&mut out, &record(index, black_box(data)));
                if out.len() >= kib * 1024 {
                    file.write_all(&out).unwrap();
                    out.clear();
                }
            }
            file.write_all(&out).unwrap();
            drop(file);
            start.elapsed()
        };
        (format!("{kib:5} KiB"), Box::new(run))
    });
    compare(cases.collect(), |time| {
        format!("{:.2}", (count * 1532) as f64 / time.as_secs_f64() / 1e9)
    });
    fs::remove_file(path).unwrap();
}

/// The whole writer beside `dd bs=1M`, by the time of their processes' own clocks.
fn against_dd(volume: usize) {
    println!("1500-byte packets to /dev/shm: median GB/s of file");
    let data = vec![0x5a; 1500];
    let path = shm_file("dd.pcapng");
    let count = volume / 1532;
    let ours = || {
        let _ = fs::remove_file(&path);
        let sources = [Source::new("sim", Class::Rx, Some(0))];
        let start = Instant::now();
        let mut writer =
            CaptureWriter::create(&path, &sources, WriterOptions::of_path(&path), 0).unwrap();
        for index in 0..count {
            writer.write(&record(index, black_box(&data))).unwrap();
        }
        writer.finish(&[]).unwrap();
        start.elapsed()
    };
    let dd = || {
        let _ = fs::remove_file(&path);
        let blocks = (count * 1532) >> 20;
        let output = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M"])
            .arg(format!("of={}", path.display()))
            .arg(format!("count={blocks}"))
            .output();
        // "… bytes (… MB, … MiB) copied, 0.25 s, 4.2 GB/s"
        let text = String::from_utf8(output.unwrap().stderr).unwrap();
        let seconds = text.split("copied, ").nth(1).and_then(|rest| rest.split(' ').next());
        Duration::from_secs_f64(seconds.unwrap().parse().unwrap())
    };
    let cases: Vec<Case<'_>> =
        vec![("wirelane".into(), Box::new(ours)), ("dd bs=1M".into(), Box::new(dd))];
    compare(cases, |time| format!("{:.2}", (count * 1532) as f64 / time.as_secs_f64() / 1e9));
    fs::remove_file(path).unwrap();
}

/// Runs the cases in turns and prints each one's median, lowest and highest.
fn compare(mut cases: Vec<Case<'_>>, figure: impl Fn(Duration) -> String) {
    let mut times = vec![Vec::new(); cases.len()];
    for (_, run) in &mut cases {
        run();
    }
    for _ in 0..RUNS {
        for ((_, run), times) in cases.iter_mut().zip(&mut times) {
            times.push(run());
        }
    }
    for ((name, _), mut times) in cases.into_iter().zip(times) {
        times.sort_unstable();
        let [low, median, high] = [0, RUNS / 2, RUNS - 1].map(|index| figure(times[index]));
        println!("  {name:20} {median:>18}   ({low} to {high})");
    }
}

fn per_packet(time: Duration, count: usize, size: usize) -> String {
    let nanoseconds = time.as_secs_f64() * 1e9 / count as f64;
    format!("{nanoseconds:.1} ns {:.1}", size as f64 * 8.0 / nanoseconds)
}

fn record(index: usize, data: &[u8]) -> Record<'_> {
    Record {
        interface: 0,
        timestamp: index as u64,
        original_len: data.len() as u32,
        direction: Direction::Unknown,
        data,
    }
}

fn header() -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::section_header(&mut file, &Section::default());
    pcapng::interface(&mut file, &Source::new("sim", Class::Rx, Some(0)));
    file
}

fn shm_file(name: &str) -> std::path::PathBuf {
    Path::new("/dev/shm").join(format!("wirelane-bench-{}-{name}", std::process::id()))
}
