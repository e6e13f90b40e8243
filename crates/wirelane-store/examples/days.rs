//! Writes packets of two queues into a store of at most 200 MB, then searches for a host after a
//! time.
//!
//!     cargo run --release -p wirelane-store --example days -- /tmp/days 'udp and host 10.0.1.7'
//!
//! The segments in the directory are pcapng files: tcpdump and Wireshark read them, too.
#![allow(clippy::print_stdout)]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use wirelane_filter::Filter;
use wirelane_os::clock;
use wirelane_pcap::{Class, Direction, Record, Source};
use wirelane_store::query::{self, Query};
use wirelane_store::{Directory, LaneWriter, Limits, Result, StoreOptions, StoreWriter};

const PACKETS: u32 = 100_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().unwrap_or_else(|| "/tmp/days".into()));
    let expression = arguments.next().unwrap_or_else(|| "udp and host 10.0.1.7".into());

    let begin = clock::realtime_ns();
    record(&path, begin)?;

    // The second half of the recording, as if the user knew when the event happened.
    let middle = begin + u64::from(PACKETS / 2) * 1000;
    let filter = expression.parse::<Filter>()?;
    let question = Query::all().from(middle).filter(filter);
    let mut count = 0;
    let store = Directory::open(&path)?;
    let report = query::run(&[store], &question, |found| {
        count += 1;
        if count <= 3 {
            let Record { timestamp, data, .. } = found.record;
            println!("{timestamp}: {} bytes", data.len());
        }
        ControlFlow::Continue(())
    })?;
    println!("{count} packets: {} of {} extents were read", report.extents_read, report.extents);
    Ok(())
}

/// One lane for each queue; the oldest segments go when the limit is reached.
fn record(path: &std::path::Path, begin: u64) -> Result<()> {
    let limits = Limits::default().max_bytes(200 << 20);
    let options = StoreOptions::default().segment_bytes(16 << 20).limits(limits);
    let mut store = StoreWriter::create(path, options)?;
    let lane = |queue| Source::new("eth0", Class::Rx, Some(queue));
    let lanes = [store.lane(&[lane(0)], None)?, store.lane(&[lane(1)], None)?];
    std::thread::scope(|scope| {
        for (queue, lane) in (0..).zip(lanes) {
            scope.spawn(move || receive(lane, queue, begin));
        }
    });
    let report = store.finish();
    let total = report.total();
    println!(
        "{} packets in {} segments, {} bytes; {} dropped",
        total.written.packets, report.segments, report.bytes, total.dropped.packets
    );
    Ok(())
}

/// The work of a queue's thread.
fn receive(mut lane: LaneWriter, queue: u8, begin: u64) {
    for number in 0..PACKETS {
        let data = frame(queue, number);
        let record = Record {
            interface: 0,
            timestamp: begin + u64::from(number) * 1000,
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data: &data,
        };
        // A port that cannot wait would push at once, and count refused packets.
        lane.wait_for_room(data.len(), Duration::from_secs(10));
        lane.push(&record, None);
        lane.tick(clock::monotonic_ns());
    }
}

/// UDP from 10.0.QUEUE.NUMBER, 400 bytes.
fn frame(queue: u8, number: u32) -> [u8; 400] {
    let mut frame = [0; 400];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[16..18].copy_from_slice(&386_u16.to_be_bytes());
    frame[23] = 17;
    frame[26..30].copy_from_slice(&[10, 0, queue, number as u8]);
    frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
    frame
}
