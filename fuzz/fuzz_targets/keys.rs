//! Indexes arbitrary bytes as packets: each key of a packet finds its extent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_store::{ExtentHeader, FlowId, Index, IndexBuilder, Term, keys};

const LINK_TYPES: [u16; 5] = [1, 101, 113, 276, 0];

fuzz_target!(|bytes: &[u8]| {
    let Some((head, data)) = bytes.split_first() else { return };
    let link_type = LINK_TYPES[usize::from(*head) % LINK_TYPES.len()];
    let packets = [data, &data[..data.len() / 2], &data[data.len() / 3..]];
    let mut builder = IndexBuilder::new(1);
    for packet in packets {
        builder.packet(link_type, packet);
        builder.end_extent(0, &ExtentHeader::default());
    }
    let index = Index::from_bytes(builder.finish(), "fuzz").expect("what was just made");
    for (extent, packet) in packets.into_iter().enumerate() {
        let mut flow = FlowId::of(link_type, packet).map(|flow| flow.term());
        keys(link_type, packet, |field, value| {
            let term = Term::equal(field, value);
            assert!(index.lookup(&term).expect("a whole file").contains(extent));
            flow = flow.filter(|flow| *flow != term);
        });
        assert_eq!(flow, None, "the key of the flow is one of the keys");
    }
});
