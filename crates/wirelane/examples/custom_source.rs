//! A source of your own: receives the Ethernet frames that a switch mirrors to this host by VXLAN.
//!
//!     target/release/examples/custom_source 0.0.0.0:4789
#![allow(clippy::print_stdout)]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use wirelane::port::{Readiness, Receive, Rx};
use wirelane::stats::RxCounters;
use wirelane::wire::FlowKey;
use wirelane::{Batch, Class, Error, Pool, PoolConfig, Result, pipeline};

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
                frame.set_timestamp(now());
                _ = batch.push(frame); // there is room
            }
        }
        batch.len() - before
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        Ok(Readiness::Descriptor(self.0.as_fd(), Duration::from_secs(1)))
    }

    fn watermark(&self) -> u64 {
        now()
    }
}

fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64)
}

fn main() -> Result<()> {
    let Some(address) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name an address, such as 0.0.0.0:4789"));
    };
    let source = Mirror(UdpSocket::bind(address)?, Pool::new(PoolConfig::default())?);
    source.0.set_nonblocking(true)?;
    let rx = Rx::new(source, Arc::new(RxCounters::new(0, Class::Rx)));
    pipeline::run(&mut [rx], |_, batch: &mut Batch| {
        let flows = batch.iter().filter_map(|frame| FlowKey::parse(frame.data()).ok()?);
        flows.for_each(|flow| println!("{flow}"));
        Ok(())
    })
}
