//! Blocks in memory: the same packets as the stream reader finds, and safety with hostile bytes.

use super::*;
use crate::pcapng::{Content, blocks};

/// The blocks behind section header and interfaces: packets, some with comments, and statistics.
fn encode(records: &[Owned], comments: &[Option<&str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (record, comment) in records.iter().zip(comments.iter().cycle()) {
        match comment {
            Some(comment) => {
                pcapng::packet_with_comment(&mut bytes, &record.record(), comment);
            }
            None => pcapng::packet(&mut bytes, &record.record()),
        }
    }
    pcapng::statistics(&mut bytes, &counters(2));
    bytes
}

/// Blocks follow each other without a gap from the first byte on, and are inside. Where it stopped.
fn walk(bytes: &[u8]) -> usize {
    let mut at = 0;
    for block in blocks(bytes) {
        let Ok(block) = block else { return at };
        assert_eq!(block.offset, at);
        assert_eq!(&bytes[at..at + block.bytes.len()], block.bytes);
        let _ = block.comment();
        at += block.bytes.len();
    }
    assert_eq!(at, bytes.len(), "without an error, all bytes are blocks");
    at
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_in_memory_are_what_was_encoded(records in records()) {
        let comments = [None, Some("a"), None, Some("four"), Some("grüß dich")];
        let bytes = encode(&records, &comments);
        prop_assert_eq!(walk(&bytes), bytes.len());
        let mut packets = Vec::new();
        let mut last = None;
        for block in blocks(&bytes) {
            let block = block.unwrap();
            match block.content {
                Content::Packet { record, .. } => {
                    packets.push((Owned::of(&record), block.comment()));
                }
                content => last = Some(content),
            }
        }
        let expected = records.iter().cloned().zip(comments.into_iter().cycle());
        prop_assert!(packets.into_iter().eq(expected));
        prop_assert_eq!(last, Some(Content::Statistics(counters(2))));
    }

    #[test]
    fn foreign_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        walk(&bytes);
        // The same with a length that fits.
        if let [_, _, _, _, ..] = bytes[..] {
            let mut block = 6_u32.to_ne_bytes().to_vec();
            let len = (bytes.len() & !3) as u32 + 12;
            block.extend(len.to_ne_bytes());
            block.extend(&bytes[..bytes.len() & !3]);
            block.extend(len.to_ne_bytes());
            walk(&block);
        }
    }

    #[test]
    fn a_damaged_byte_does_no_harm(records in records(), at: usize, value: u8) {
        let mut bytes = encode(&records, &[Some("a comment"), None]);
        let at = at % bytes.len();
        bytes[at] = value;
        walk(&bytes);
        walk(&bytes[..at]);
    }
}

#[test]
fn bad_blocks_are_named_and_end_the_walk() {
    let block = |kind: u32, len: u32, body: &[u8], trailer: u32| {
        [&kind.to_ne_bytes()[..], &len.to_ne_bytes(), body, &trailer.to_ne_bytes()].concat()
    };
    let whole = block(0x8000_0001, 16, &[0; 4], 16);
    for (bad, what) in [
        (vec![0; 7], "less is left than a block needs"),
        (block(6, 8, &[], 8), "impossible block length"),
        (block(6, 14, &[0; 2], 14), "impossible block length"),
        (block(6, u32::MAX - 3, &[0; 40], 52), "a block is longer than what is left"),
        (block(6, 52, &[0; 40], 48), "the two lengths of a block differ"),
        (block(6, 28, &[0; 16], 28), "packet block too short"),
        (block(6, 36, &[0xff; 24], 36), "packet longer than its block"),
        (block(5, 20, &[0; 8], 20), "interface statistics too short"),
    ] {
        // Too few bytes are there at the end only.
        let rest = if bad.len() < 8 { &[] } else { &whole[..] };
        let bytes = [&whole[..], &whole, &bad, rest].concat();
        let mut walk = blocks(&bytes);
        for offset in [0, 16] {
            let block = walk.next().unwrap().unwrap();
            assert_eq!((block.offset, block.content), (offset, Content::Other(0x8000_0001)));
            assert_eq!(block.bytes, whole);
        }
        let bad = walk.next().unwrap().unwrap_err();
        assert_eq!((bad.offset, bad.what), (32, what));
        assert!(walk.next().is_none());
    }
}
