//! The rows of a capture file in Rust, without Python: `examples/rates.py` measures it.
//!
//!     cargo run --release -p wirelane-py --example batches -- trace.pcapng

use std::time::Instant;

use wirelane::pcap::{Class, Source};
use wirelane::port::{self, OpenOptions};
use wirelane::{Batch, Error, Result, pipeline};
use wirelane_flow::arrow::Packets;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let started = Instant::now();
    let mut port = port::open(&format!("file:{path}").parse()?, &OpenOptions::default())?;
    let mut rx = port.rx()?;
    let mut packets = Packets::new();
    let interface = packets.interface(&Source::new(&path, Class::Rx, None));
    port.start()?;
    let (mut rows, mut batches) = (0, 0);
    let mut finish = |packets: &mut Packets| -> Result<()> {
        let batch = packets.finish().map_err(|error| Error::failed("rows", error.to_string()))?;
        (rows, batches) = (rows + batch.num_rows(), batches + 1);
        Ok(())
    };
    pipeline::run(&mut rx, |_end: usize, batch: &mut Batch| {
        for frame in batch.iter() {
            packets.push(interface, &frame.as_record(interface));
            if packets.len() == Packets::USUAL {
                finish(&mut packets)?;
            }
        }
        Ok(())
    })?;
    finish(&mut packets)?;
    eprintln!("{rows} rows in {batches} batches, {:.6} s", started.elapsed().as_secs_f64());
    Ok(())
}
