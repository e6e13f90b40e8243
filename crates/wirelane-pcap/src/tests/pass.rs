//! Blocks beside packets pass through a merge and through a rotation.

use super::*;
use crate::pcapng::{MetadataBlock, MetadataKind, Step};
use crate::{Losses, MergeControl, merge_files};

/// Appends a block of this type, in one byte order or the other.
fn block(out: &mut Vec<u8>, swapped: bool, kind: u32, body: &[u8]) {
    let word = |value: u32| if swapped { value.swap_bytes() } else { value }.to_ne_bytes();
    let len = word(12 + body.len().next_multiple_of(4) as u32);
    out.extend_from_slice(&word(kind));
    out.extend_from_slice(&len);
    out.extend_from_slice(body);
    out.resize(out.len() + (body.len().wrapping_neg() & 3), 0);
    out.extend_from_slice(&len);
}

/// Appends an option, or a number of 16 bits and a string in the same form.
fn option(out: &mut Vec<u8>, swapped: bool, code: u16, value: &[u8]) {
    let half = |value: u16| if swapped { value.swap_bytes() } else { value }.to_ne_bytes();
    out.extend_from_slice(&half(code));
    out.extend_from_slice(&half(value.len() as u16));
    out.extend_from_slice(value);
    out.resize(out.len() + (value.len().wrapping_neg() & 3), 0);
}

/// A file with every kind of block beside packets, in one byte order or the other.
fn rich(swapped: bool) -> Vec<u8> {
    let word = |value: u32| if swapped { value.swap_bytes() } else { value }.to_ne_bytes();
    let half = |value: u16| if swapped { value.swap_bytes() } else { value }.to_ne_bytes();
    let words = |values: &[u32]| values.iter().flat_map(|value| word(*value)).collect::<Vec<_>>();
    let mut out = Vec::new();
    let mut section = word(0x1a2b_3c4d).to_vec();
    section.extend_from_slice(&[half(1), half(0)].concat());
    section.extend_from_slice(&[0xff; 8]);
    option(&mut section, swapped, 1, b"of the file");
    option(&mut section, swapped, 4, b"Dumpcap");
    block(&mut out, swapped, 0x0a0d_0d0a, &section);
    let mut interface = [half(1), half(0)].concat();
    interface.extend_from_slice(&word(0));
    option(&mut interface, swapped, 2, b"eth7");
    option(&mut interface, swapped, 1, b"of the interface");
    option(&mut interface, swapped, 4, &[10, 0, 0, 1, 255, 0, 0, 0]);
    block(&mut out, swapped, 1, &interface);
    let mut names = Vec::new();
    option(&mut names, swapped, 1, b"\x0a\0\0\x01host.example\0");
    names.extend_from_slice(&[0; 4]);
    block(&mut out, swapped, 4, &names);
    let mut secrets = words(&[0x544c_534b, 8]);
    secrets.extend_from_slice(b"CLIENT_R");
    block(&mut out, swapped, 10, &secrets);
    for time in 1..=3 {
        let mut packet = words(&[0, 0, time * 1_000_000, 5, 60]);
        packet.extend_from_slice(b"hello\0\0\0");
        option(&mut packet, swapped, 2, &word(1));
        option(&mut packet, swapped, 1, format!("packet {time}").as_bytes());
        block(&mut out, swapped, 6, &packet);
        block(&mut out, swapped, 9, b"MESSAGE=1\n");
    }
    block(&mut out, swapped, 0x4000_0bad, &words(&[7, 7]));
    out
}

/// Everything of a file beside its packets' bytes, as one may look at it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Beside {
    comments: Vec<String>,
    metadata: Vec<(MetadataKind, Vec<u8>)>,
    packets: Vec<(u64, Vec<u8>)>,
    interfaces: Vec<Source>,
}

fn beside(path: &Path) -> (Beside, Losses) {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut found = Beside::default();
    loop {
        match reader.step().unwrap() {
            Step::Packet => {
                found.packets.push((reader.current().timestamp, reader.options().to_vec()));
            }
            Step::Metadata => {
                let metadata: MetadataBlock<'_> = reader.metadata().unwrap();
                found.metadata.push((metadata.kind(), metadata.bytes().to_vec()));
            }
            Step::End => break,
        }
    }
    found.interfaces = reader.interfaces().to_vec();
    let section = reader.section().into_iter().flat_map(Section::comments);
    found.comments = section.map(str::to_owned).collect();
    (found, reader.lost())
}

#[test]
fn all_of_a_file_goes_through_a_merge_in_either_byte_order() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("ours"), rich(false)).unwrap();
    std::fs::write(at("theirs"), rich(true)).unwrap();
    let (ours, lost) = beside(&at("ours"));
    assert_eq!(lost, Losses { private: 1, ..Losses::default() });
    assert_eq!(beside(&at("theirs")), (ours, lost));
    for input in ["ours", "theirs"] {
        let output = at("out.pcapng.zst");
        let report = merge_files(&[at(input)], &output, &MergeControl::default()).unwrap();
        assert!(report.failure.is_none());
        assert_eq!(report.lost, lost);
        let (mut found, lost) = beside(&output);
        assert_eq!(lost, Losses::default());
        let last = found.comments.pop();
        assert_eq!(last, Some(format!("{input}: captured by Dumpcap")));
        assert_eq!(found, beside(&at("ours")).0);
        assert_eq!(found.metadata.len(), 5);
        assert!(found.packets.iter().all(|(_, options)| pcapng::options(options).count() == 2));
    }
    // The same names and secrets once, packets and journal entries of both.
    let report =
        merge_files(&[at("ours"), at("theirs")], &at("both"), &MergeControl::default()).unwrap();
    assert_eq!((report.written.packets, report.lost.private), (6, 2));
    let (found, _) = beside(&at("both"));
    let count = |kind| found.metadata.iter().filter(|(found, _)| *found == kind).count();
    let kinds = [MetadataKind::Names, MetadataKind::Secrets, MetadataKind::Other];
    assert_eq!(kinds.map(count), [1, 1, 6]);
}

#[test]
fn what_pcap_cannot_hold_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("in"), rich(false)).unwrap();
    let report = merge_files(&[at("in")], &at("out.pcap"), &MergeControl::default()).unwrap();
    let expected = Losses {
        packet_comments: 3,
        packet_options: 3,
        file_options: 2,
        interfaces: 1,
        names: 1,
        secrets: 1,
        other_blocks: 3,
        private: 1,
        ..Losses::default()
    };
    assert_eq!(report.lost, expected);
    let bytes = std::fs::read(at("out.pcap")).unwrap();
    assert_eq!(bytes.len(), 24 + 3 * (16 + 5));
    // Two link types have no place in it.
    let mut other = Vec::new();
    pcapng::section_header(&mut other, &Section::default());
    pcapng::interface(&mut other, &Source { link_type: 113, ..Source::default() });
    std::fs::write(at("other"), other).unwrap();
    let inputs = [at("in"), at("other")];
    let error = merge_files(&inputs, &at("out.pcap"), &MergeControl::default()).unwrap_err();
    assert!(error.to_string().contains("one link type"), "{error}");
}

#[test]
fn every_file_of_a_rotation_has_names_and_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("in"), rich(false)).unwrap();
    let (found, _) = beside(&at("in"));
    let rotation = Rotation { max_packets: Some(1), ..Rotation::default() };
    let options = WriterOptions { rotation, ..WriterOptions::of_path(&at("x.pcapng")) };
    let mut writer = CaptureWriter::create(at("x.pcapng"), &sources(), options, 0).unwrap();
    for (_, bytes) in found.metadata.iter().take(2) {
        writer.write_metadata(MetadataBlock::new(bytes).unwrap()).unwrap();
        writer.write_metadata(MetadataBlock::new(bytes).unwrap()).unwrap();
    }
    let packet = Owned::new(0, 1, b"hello");
    for (_, options) in &found.packets {
        writer.write_with(&packet.record(), options).unwrap();
    }
    assert_eq!(writer.finish(&[]).unwrap().files, 3);
    let mut files = 0;
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some() {
            let (of_file, _) = beside(&path);
            assert_eq!(of_file.metadata, found.metadata.get(..2).unwrap());
            assert_eq!(of_file.packets.len(), 1);
            files += 1;
        }
    }
    assert_eq!(files, 3);
}

#[test]
fn a_comment_is_written_with_its_packet() {
    let directory = tempfile::tempdir().unwrap();
    for (name, expected) in [("x.pcapng", [Some("first"), None]), ("x.pcap", [None, None])] {
        let path = directory.path().join(name);
        let options = WriterOptions::of_path(&path);
        let mut writer = CaptureWriter::create(&path, &sources()[..1], options, 0).unwrap();
        let packet = Owned::new(0, 1, b"hello");
        writer.write_with_comment(&packet.record(), "first").unwrap();
        writer.write_with_comment(&packet.record(), "").unwrap();
        assert_eq!(writer.lost().packet_comments, u64::from(expected[0].is_none()));
        writer.finish(&[]).unwrap();
        let mut reader = CaptureReader::open(&path).unwrap();
        for comment in expected {
            assert!(reader.next_record().unwrap().is_some());
            let found = pcapng::options(reader.options()).find(|(code, _)| *code == 1);
            assert_eq!(found.map(|(_, text)| text), comment.map(str::as_bytes));
        }
    }
}
