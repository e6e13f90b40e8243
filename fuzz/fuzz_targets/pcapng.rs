//! Takes arbitrary bytes for a pcapng file: every packet before the damage is delivered, then one
//! error or the end, and no packet claims more bytes than the file has. The same bytes as blocks in
//! memory: they follow each other without a gap, and an error is the end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_pcap::pcapng::{Content, PcapngReader, blocks};

fuzz_target!(|bytes: &[u8]| {
    let mut reader = PcapngReader::new(bytes, "fuzz");
    let mut total = 0;
    while let Ok(true) = reader.advance() {
        let record = reader.current();
        assert!((record.interface as usize) < reader.interfaces().len());
        total += record.data.len();
        assert!(total <= bytes.len());
    }
    assert!(matches!(reader.advance(), Ok(false)), "after an error the end is reached");

    let (mut walk, mut at) = (blocks(bytes), 0);
    while let Some(Ok(block)) = walk.next() {
        assert_eq!(block.offset, at);
        at += block.bytes.len();
        assert!(at <= bytes.len());
        if let Content::Packet { record, .. } = block.content {
            assert!(record.data.len() + block.comment().map_or(0, str::len) < block.bytes.len());
        }
    }
    assert!(walk.next().is_none(), "after an error the end is reached");
});
