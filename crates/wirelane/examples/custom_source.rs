//! A new source of packets: captures the frames that a switch mirrors to this host by VXLAN.
//!
//!     target/release/examples/custom_source 0.0.0.0:4789 mirrored.pcapng
#![allow(clippy::print_stdout)]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, UNIX_EPOCH};

use wirelane::halt::Halt;
use wirelane::port::{self, OpenOptions, Readiness, Receive};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};
use wirelane::{Batch, Error, Pool, PoolConfig, Result};

/// Each datagram has a VXLAN header of 8 bytes and a frame (RFC 7348 section 5).
struct Mirror(UdpSocket, Pool);

impl Receive for Mirror {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let before = batch.len();
        while batch.room() > 0
            && let Some(mut frame) = self.1.take_one()
            && frame.set_len(frame.capacity())
            && let Ok(len) = self.0.recv(frame.data_mut())
        {
            if frame.set_len(len) && frame.strip(8) {
                frame.set_timestamp(self.watermark());
                _ = batch.push(frame); // there is room
            }
        }
        batch.len() - before
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        Ok(Readiness::Descriptor(self.0.as_fd(), Duration::from_secs(1)))
    }

    /// Now: later packets are not older.
    fn watermark(&self) -> u64 {
        UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [address, path] = &arguments[..] else {
        return Err(Error::usage("arguments", "an address and a file are needed"));
    };
    let source = Mirror(UdpSocket::bind(address)?, Pool::new(PoolConfig::default())?);
    source.0.set_nonblocking(true)?;
    let port = port::custom("mirror", [source], &OpenOptions::default())?;
    let config = CaptureConfig::default().output(OutputConfig::new(path));
    let (halt, capture) = (Halt::by_signals()?, Capture::start(vec![port], &config)?);
    while !capture.wait(Duration::from_secs(1)) && !halt.is_asked() {}
    let outcome = capture.join();
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
