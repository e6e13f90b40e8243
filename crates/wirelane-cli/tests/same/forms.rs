//! The table of paths from files: each form holds the same packets.

use std::fs;
use std::path::{Path, PathBuf};

use wirelane::Class;
use wirelane::pcap::pcap::{Resolution, file_header};
use wirelane::pcap::pcapng::{interface, packet, section_header, statistics};
use wirelane::pcap::{
    CaptureWriter, Direction, LINK_TYPE_ETHERNET, Record, Section, Source, Statistics,
    WriterOptions, pcap,
};
use wirelane_testkit::process::run;

use crate::shared::wirelane;
use crate::traffic::Packet;

/// A row: it writes the packets into a file in the directory.
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Whether it records the queues of packets.
    pub(crate) queues: bool,
    /// Whether it holds packets of several link types.
    pub(crate) types: bool,
    pub(crate) given: Given,
    /// Whether it always stores packets in order of time.
    pub(crate) sorts: bool,
    /// Whether mostly the coding differs from another form: then every third row of traffic is
    /// enough.
    pub(crate) sampled: bool,
    pub(crate) write: fn(&[Packet], &Path) -> PathBuf,
}

/// How a command gets the packets.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Given {
    File,
    /// On standard input.
    Pipe,
    /// As two files, this one and `OTHER` beside it.
    Two,
}

/// The name of the second file.
pub(crate) const OTHER: &str = "y.pcapng";

const fn pcapng(name: &'static str, write: fn(&[Packet], &Path) -> PathBuf) -> Form {
    let (queues, types, sorts, sampled) = (true, true, false, false);
    Form { name, queues, types, given: Given::File, sorts, sampled, write }
}

const fn classic(name: &'static str, write: fn(&[Packet], &Path) -> PathBuf) -> Form {
    let (queues, types, sorts, sampled) = (false, false, false, false);
    Form { name, queues, types, given: Given::File, sorts, sampled, write }
}

const fn sampled(form: Form) -> Form {
    Form { sampled: true, ..form }
}

/// The answers of the other forms are compared with the answers of the first form.
pub(crate) const FORMS: &[Form] = &[
    pcapng("pcapng", |packets, to| written(packets, to, "x.pcapng")),
    sampled(pcapng("gzip", |packets, to| written(packets, to, "x.pcapng.gz"))),
    sampled(pcapng("zstd", |packets, to| written(packets, to, "x.pcapng.zst"))),
    sampled(pcapng("lz4", |packets, to| written(packets, to, "x.pcapng.lz4"))),
    Form {
        given: Given::Pipe,
        ..sampled(pcapng("pipe", |packets, to| written(packets, to, "x.pcapng")))
    },
    Form {
        queues: false, // named after the file, too
        given: Given::Two,
        sorts: true,
        ..pcapng("two files", two)
    },
    Form { sorts: true, ..pcapng("store", stored) },
    pcapng("late interfaces", |packets, to| blocks(packets, to, packets.len(), Extra::Nothing)),
    Form {
        given: Given::Pipe,
        ..pcapng("late in a pipe", |packets, to| blocks(packets, to, packets.len(), Extra::Nothing))
    },
    pcapng("statistics between", |packets, to| blocks(packets, to, packets.len(), Extra::After)),
    sampled(pcapng("statistics first", |packets, to| {
        blocks(packets, to, packets.len(), Extra::Before)
    })),
    pcapng("cat a b", |packets, to| blocks(packets, to, packets.len().div_ceil(2), Extra::Nothing)),
    sampled(pcapng("many sections", |packets, to| {
        blocks(packets, to, packets.len().div_ceil(9), Extra::After)
    })),
    sampled(classic("pcap", |packets, to| written(packets, to, "x.pcap"))),
    sampled(classic("pcap of nanoseconds", |packets, to| {
        raw(packets, to, Resolution::Nanoseconds)
    })),
    sampled(classic("pcap of microseconds", |packets, to| {
        raw(packets, to, Resolution::Microseconds)
    })),
    sampled(classic("big endian", big_endian)),
    sampled(classic("modified pcap", modified)),
];

/// The name of the interface.
pub(crate) const NAME: &str = "wl0";

/// A description for each queue, in order, and the index of each packet's description.
fn sources(packets: &[Packet], queues: bool) -> (Vec<Source>, Vec<u32>) {
    let mut keys: Vec<_> = packets.iter().map(|it| (it.queue, it.link_type)).collect();
    keys.sort_unstable();
    keys.dedup();
    if !queues {
        keys.truncate(1);
    }
    let find = |it: &Packet| {
        keys.iter().position(|key| *key == (it.queue, it.link_type)).unwrap_or_default() as u32
    };
    let of_packets = packets.iter().map(find).collect();
    let source = |&(queue, link_type): &(u32, u16)| Source {
        link_type,
        snaplen: 262_144,
        ..Source::new(NAME, Class::Rx, Some(queue))
    };
    (keys.iter().map(source).collect(), of_packets)
}

fn record(packet: &Packet, interface: u32) -> Record<'_> {
    Record {
        interface,
        timestamp: packet.time,
        original_len: packet.original_len,
        direction: Direction::Unknown,
        data: &packet.data,
    }
}

/// As Wirelane writes it.
fn written(packets: &[Packet], to: &Path, name: &str) -> PathBuf {
    let path = to.join(name);
    let (sources, of_packets) = sources(packets, !name.ends_with(".pcap"));
    let options = WriterOptions::of_path(&path);
    let mut writer = CaptureWriter::create(&path, &sources, options, 0).unwrap();
    for (packet, source) in packets.iter().zip(of_packets) {
        writer.write(&record(packet, source)).unwrap();
    }
    writer.finish(&[]).unwrap();
    path
}

/// Two packets in the first file, two in the second one, and so on.
fn two(packets: &[Packet], to: &Path) -> PathBuf {
    let part = |wanted: usize| {
        let places = packets.iter().enumerate().filter(|(at, _)| at / 2 % 2 == wanted);
        places.map(|(_, packet)| packet.clone()).collect::<Vec<_>>()
    };
    written(&part(1), to, OTHER);
    written(&part(0), to, "x.pcapng")
}

/// `record` and `extract`.
fn stored(packets: &[Packet], to: &Path) -> PathBuf {
    let (store, path) = (to.join("store"), to.join("extracted.pcapng"));
    let input = format!("file:{}", written(packets, to, "x.pcapng").display());
    run(wirelane(["record", "-q", "--segment", "4M", &input]).arg(&store));
    run(wirelane(["extract"]).arg(&store).arg("-w").arg(&path));
    path
}

/// Statistics of an interface beside each packet.
#[derive(Clone, Copy, PartialEq)]
enum Extra {
    Nothing,
    /// Also of an interface that is described later.
    Before,
    After,
}

/// Sections of `section` packets; each interface is described before its first packet.
fn blocks(packets: &[Packet], to: &Path, section: usize, extra: Extra) -> PathBuf {
    let (path, mut bytes) = (to.join("x.pcapng"), Vec::new());
    let (sources, of_packets) = sources(packets, true);
    let of_packets: Vec<_> = packets.iter().zip(of_packets).collect();
    for part in of_packets.chunks(section) {
        section_header(&mut bytes, &Section::default());
        let mut described = Vec::new();
        for (one, source) in part {
            let known = described.iter().position(|it| it == source);
            let number = known.unwrap_or(described.len()) as u32;
            let counters =
                Statistics { interface: number, timestamp: one.time, ..Statistics::default() };
            if extra == Extra::Before {
                statistics(&mut bytes, &counters);
            }
            if known.is_none() {
                described.push(*source);
                interface(&mut bytes, &sources[*source as usize]);
            }
            packet(&mut bytes, &record(one, number));
            if extra == Extra::After {
                statistics(&mut bytes, &counters);
            }
        }
    }
    fs::write(&path, bytes).unwrap();
    path
}

fn raw(packets: &[Packet], to: &Path, resolution: Resolution) -> PathBuf {
    let (path, mut bytes) = (to.join("x.pcap"), Vec::new());
    file_header(&mut bytes, resolution, &sources(packets, false).0[0]);
    packets.iter().for_each(|one| pcap::packet(&mut bytes, resolution, &record(one, 0)));
    fs::write(&path, bytes).unwrap();
    path
}

/// Seconds, microseconds, captured and original length of a packet of a pcap file.
fn header(packet: &Packet) -> [u32; 4] {
    let captured = packet.data.len() as u32;
    let (seconds, rest) = (packet.time / 1_000_000_000, packet.time % 1_000_000_000);
    [seconds as u32, (rest / 1000) as u32, captured, packet.original_len]
}

fn big_endian(packets: &[Packet], to: &Path) -> PathBuf {
    let path = to.join("x.pcap");
    let start = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 262_144, LINK_TYPE_ETHERNET.into()];
    let mut bytes: Vec<u8> = start.into_iter().flat_map(u32::to_be_bytes).collect();
    for packet in packets {
        bytes.extend(header(packet).into_iter().flat_map(u32::to_be_bytes));
        bytes.extend(&packet.data);
    }
    fs::write(&path, bytes).unwrap();
    path
}

/// Magic a1b2cd34: eight more bytes in front of each packet.
fn modified(packets: &[Packet], to: &Path) -> PathBuf {
    let path = to.join("x.pcap");
    let start = [0xa1b2_cd34, 0x0004_0002, 0, 0, 262_144, LINK_TYPE_ETHERNET.into()];
    let mut bytes: Vec<u8> = start.into_iter().flat_map(u32::to_le_bytes).collect();
    for packet in packets {
        let more = [2_u32, 8];
        bytes.extend(header(packet).into_iter().chain(more).flat_map(u32::to_le_bytes));
        bytes.extend(&packet.data);
    }
    fs::write(&path, bytes).unwrap();
    path
}
