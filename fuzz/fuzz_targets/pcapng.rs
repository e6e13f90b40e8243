//! Reads arbitrary bytes as a pcapng file. The reader ends after an error, and packets have no more
//! bytes than the file. Blocks of the same bytes in memory have no gaps, and end after an error.
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
