//! Every command that copies packets keeps all metadata: `capture`, `forward`, `merge` and
//! `convert`.

use std::fs;

use wirelane::Class;
use wirelane::pcap::pcapng::{MetadataBlock, Step, options};
use wirelane::pcap::{CaptureWriter, Direction, Record, Section, Source, WriterOptions};

use super::*;

/// A block of this type.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len().next_multiple_of(4)) as u32;
    let mut block = [kind.to_ne_bytes(), len.to_ne_bytes()].concat();
    block.extend_from_slice(body);
    block.resize(len as usize - 4, 0);
    block.extend_from_slice(&len.to_ne_bytes());
    block
}

/// An option in its coding.
fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [code.to_ne_bytes(), (value.len() as u16).to_ne_bytes()].concat();
    option.extend_from_slice(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
const HASH: u16 = 3;
/// 10.0.0.1 is host.example; the end.
const NAMES: &[u8] = b"\x01\0\x11\0\x0a\0\0\x01host.example\0\0\0\0\0\0\0\0";

/// Names, secrets and a custom block.
fn metadata() -> [Vec<u8>; 3] {
    let secrets = [&0x544c_534b_u32.to_ne_bytes()[..], &8_u32.to_ne_bytes(), b"CLIENT_R"].concat();
    let custom = [&32473_u32.to_ne_bytes()[..], b"whatever"].concat();
    [block(4, NAMES), block(10, &secrets), block(0xbad, &custom)]
}

/// A file with every kind of metadata. Two of its interfaces have the same queue, as from two
/// hosts. One packet is nearly as long as a usual frame, and one much longer.
fn rich(path: &Path) {
    let named = |name: &str, comment: &str| Source {
        options: option(COMMENT, comment.as_bytes()),
        ..Source::new(name, Class::Rx, Some(0))
    };
    let foreign = Source { name: "wlan0".into(), link_type: 1, ..Source::default() };
    let sources = [named("eth0", "of host a"), named("eth0", "of host b"), foreign];
    let mut section =
        Section { application: "Dumpcap".into(), os: "Plan 9".into(), ..Section::default() };
    section.add_comment("of the file");
    let options = WriterOptions::of_path(path).section(section);
    let mut writer = CaptureWriter::create(path, &sources, options, 0).unwrap();
    let metadata = metadata();
    for number in 0..300_u32 {
        if let Some(block) = metadata.get(number as usize / 50).filter(|_| number % 50 == 0) {
            writer.write_metadata(MetadataBlock::new(block).unwrap()).unwrap();
        }
        let data = vec![
            number as u8;
            match number % 10 {
                3 => 1980,
                7 => 9000,
                _ => 60,
            }
        ];
        let mut options = Vec::new();
        if number % 3 > 0 {
            options.extend(option(COMMENT, format!("packet {number}").as_bytes()));
        }
        if number % 9 == 0 {
            options.extend(option(HASH, &[2, 1, 2, 3, 4]));
            options.extend(option(FLAGS, &2_u32.to_ne_bytes()));
        }
        let record = Record {
            interface: number % 3,
            timestamp: 1_700_000_000_000_000_000 + u64::from(number),
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data: &data,
        };
        writer.write_with(&record, &options).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// A word of a command line with the paths filled in.
fn named(word: &str, input: &Path, output: &Path) -> String {
    word.replace("{in}", input.to_str().unwrap()).replace("{out}", output.to_str().unwrap())
}

/// A packet with its interface, time, bytes and options.
type Whole = (Source, u64, Vec<u8>, Vec<(u16, Vec<u8>)>);

/// The content of a file.
#[derive(Debug, Default)]
struct Content {
    packets: Vec<Whole>,
    /// Blocks of metadata, each with the number of packets before it.
    metadata: Vec<(usize, Vec<u8>)>,
    section: Section,
}

fn content(path: &Path) -> Content {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut found = Content::default();
    loop {
        match reader.step().unwrap() {
            Step::Packet => {
                let record = reader.current();
                // A capture writes its snapshot length into the interface.
                let source =
                    Source { snaplen: 0, ..reader.interfaces()[record.interface as usize].clone() };
                let known = options(reader.options()).map(|(code, value)| (code, value.to_vec()));
                let known = known.collect();
                found.packets.push((source, record.timestamp, record.data.to_vec(), known));
            }
            Step::Metadata => {
                let bytes = reader.metadata().unwrap().bytes().to_vec();
                found.metadata.push((found.packets.len(), bytes));
            }
            Step::End => break,
        }
    }
    found.section = reader.section().unwrap().clone();
    found
}

/// Whether the section has the rich file's metadata.
#[track_caller]
fn assert_inherits(section: &Section, name: &str) {
    let comments: Vec<_> = section.comments().collect();
    assert_eq!(comments, ["of the file", &format!("{name}: captured by Dumpcap")]);
    assert_eq!((section.os.as_str(), section.hardware.as_str()), ("Plan 9", ""));
    assert!(section.application.starts_with("wirelane "));
}

#[test]
fn all_of_a_file_goes_through_every_command() {
    let files = Files::new();
    let x = files.path("x.pcapng");
    rich(&x);
    let expected = content(&x);
    for (words, is_through_ports) in [
        (["convert", "-q", "{in}", "{out}"], false),
        (["merge", "{in}", "-w", "{out}"], false),
        (["capture", "-qr{in}", "-w", "{out}"], true),
        (["forward", "-q", "file:{in}", "file:{out}"], true),
    ] {
        for suffix in ["pcapng", "pcapng.zst"] {
            let y = files.path(&format!("y.{suffix}"));
            let word = |word: &str| named(word, &x, &y);
            let ended = output(&mut wirelane(words.map(word)));
            assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
            let found = content(&y);
            assert_eq!(found.packets, expected.packets, "{words:?}");
            let blocks =
                |of: &Content| of.metadata.iter().map(|(_, one)| one.clone()).collect::<Vec<_>>();
            assert_eq!(blocks(&found), blocks(&expected), "{words:?}");
            // No block follows the packets that it explains.
            for ((at, _), (before, _)) in found.metadata.iter().zip(&expected.metadata) {
                assert!(at <= before && (is_through_ports || at == before), "{words:?}");
            }
            assert_inherits(&found.section, "x.pcapng");
        }
    }
}

#[test]
fn every_file_of_a_rotation_and_of_a_split_has_them() {
    let files = Files::new();
    let x = files.path("x.pcapng");
    rich(&x);
    let expected = content(&x);
    let [names, secrets, custom] = metadata();
    let all = |prefix: &str| {
        let mut paths: Vec<_> =
            fs::read_dir(files.0.path()).unwrap().map(|one| one.unwrap().path()).collect();
        paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
        paths.sort();
        paths
    };
    ours(
        ["capture", "-q", "--rotate-packets", "100", "-r"],
        &[&x, Path::new("-w"), &files.path("r.pcapng")],
    );
    let rotated: Vec<_> = all("r_").iter().map(|path| content(path)).collect();
    let packets: Vec<_> = rotated.iter().flat_map(|one| one.packets.clone()).collect();
    assert_eq!((rotated.len(), packets), (3, expected.packets.clone()));
    for one in &rotated {
        let blocks: Vec<_> = one.metadata.iter().map(|(_, block)| block).collect();
        assert!(blocks.contains(&&names) && blocks.contains(&&secrets));
        assert_inherits(&one.section, "x.pcapng");
    }
    ours(["capture", "-q", "--split", "-r"], &[&x, Path::new("-w"), &files.path("s.pcapng")]);
    let split: Vec<_> = all("s.").iter().map(|path| content(path)).collect();
    assert_eq!(split.len(), 3);
    let has = |block: &Vec<u8>| {
        split.iter().filter(|one| one.metadata.iter().any(|(_, found)| found == block)).count()
    };
    assert_eq!([&names, &secrets, &custom].map(has), [3, 3, 1]);
    for one in &split {
        let of_one: Vec<_> = expected
            .packets
            .iter()
            .filter(|packet| {
                packet.0.options == one.packets[0].0.options
                    && packet.0.name == one.packets[0].0.name
            })
            .cloned()
            .collect();
        assert_eq!(one.packets, of_one);
        assert_eq!(of_one.len(), 100);
    }
}

/// Every command reports the metadata that pcap cannot hold, in the same words.
#[test]
fn what_pcap_cannot_hold_is_told() {
    let files = Files::new();
    let (x, y) = (files.path("x.pcapng"), files.path("y.pcap"));
    rich(&x);
    let lack = "not in the output, which pcapng could hold: 200 comments of packets, 68 other options of packets, 2 comments \
                and options of the file, 3 interfaces with their names, options and counters, 1 block of names, 1 block of \
                secrets, 1 other block";
    for words in [
        &["convert", "{in}", "{out}"][..],
        &["merge", "{in}", "-w", "{out}"],
        &["capture", "-r{in}", "-w", "{out}", "-v"],
        &["forward", "file:{in}", "file:{out}", "-v"],
    ] {
        let word = |word: &&str| named(word, &x, &y);
        let ended = output(&mut wirelane(words.iter().map(word)));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains(lack), "{words:?}: {}", ended.stderr);
        assert_eq!(packets(&y).len(), 300);
    }
}

/// A store keeps interfaces and the metadata of packets and of the file, also for `extract`. It
/// counts the rest.
#[test]
fn a_store_keeps_options_and_counts_what_it_leaves_out() {
    let files = Files::new();
    let (x, y, store) = (files.path("x.pcapng"), files.path("y.pcapng"), files.path("store"));
    rich(&x);
    let from = format!("file:{}", x.display());
    let ended = output(wirelane(["record", &from]).arg(&store));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let lack = "not in the output, which pcapng could hold: 1 block of names, 1 block of secrets, 1 other block";
    assert!(ended.stderr.contains(lack), "{}", ended.stderr);
    let mut segments: Vec<_> =
        fs::read_dir(&store).unwrap().map(|one| one.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|suffix| suffix == "pcapng"));
    assert_eq!(segments.len(), 1);
    let found = content(&segments[0]);
    let expected = content(&x);
    assert_eq!(found.packets, expected.packets);
    assert_inherits(&found.section, "x.pcapng");
    ours(["extract", "-q"], &[&store, Path::new("-w"), &y]);
    assert_eq!(content(&y).packets, expected.packets);
}

/// A file of two sections, as `cat` makes it: a command that has already written the header of its
/// output can only count the second header's metadata.
#[test]
fn what_later_sections_say_is_counted() {
    let files = Files::new();
    let (a, b, x) = (files.path("a.pcapng"), files.path("b.pcapng"), files.path("x.pcapng"));
    rich(&a);
    let packet = Record {
        interface: 0,
        timestamp: 1_700_000_001_000_000_000,
        original_len: 60,
        direction: Direction::Unknown,
        data: &[0; 60],
    };
    // Two comments and another system, with the same program.
    let mut section =
        Section { application: "Dumpcap".into(), os: "Minix".into(), ..Section::default() };
    section.add_comment("of the second");
    section.add_comment("of the second, too");
    let options = WriterOptions::of_path(&b).section(section);
    let sources = [Source::new("eth1", Class::Rx, Some(0))];
    let mut writer = CaptureWriter::create(&b, &sources, options, 0).unwrap();
    writer.write(&packet).unwrap();
    writer.finish(&[]).unwrap();
    fs::write(&x, [fs::read(&a).unwrap(), fs::read(&b).unwrap()].concat()).unwrap();
    let lack = "not in the output, which pcapng could hold: 3 comments and options of the file\n";
    for words in [
        &["convert", "{in}", "{out}"][..],
        &["capture", "-r{in}", "-w", "{out}", "-v"],
        &["forward", "file:{in}", "file:{out}", "-v"],
    ] {
        let y = files.path("y.pcapng");
        let word = |word: &&str| named(word, &x, &y);
        let ended = output(&mut wirelane(words.iter().map(word)));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains(lack), "{words:?}: {}", ended.stderr);
        assert_eq!(content(&y).packets.len(), 301);
    }
}
