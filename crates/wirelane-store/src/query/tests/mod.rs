//! Queries over small stores.

mod damage;
mod equality;
mod flows;
mod list;
mod memory;
mod order;
pub(crate) mod stores;

use std::ops::ControlFlow;

use wirelane_pcap::pcapng;

use self::stores::Packet;
use super::{Query, Report, run};
use crate::directory::Directory;

/// The comment among the options of a packet.
fn comment(options: &[u8]) -> Option<&str> {
    let (_, text) = pcapng::options(options).find(|(code, _)| *code == 1)?;
    std::str::from_utf8(text).ok()
}

/// All packets that a query finds.
pub(crate) fn ask(stores: &[Directory], query: &Query) -> (Vec<Packet>, Report) {
    let mut found = Vec::new();
    let report = run(stores, query, |packet| {
        let record = &packet.record;
        assert!((record.interface as usize) < packet.sources.len());
        found.push(Packet {
            interface: record.interface,
            time: record.timestamp,
            original_len: record.original_len,
            data: record.data.into(),
            comment: comment(packet.options).map(str::to_owned),
        });
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert_eq!(report.packets, found.len() as u64);
    (found, report)
}
