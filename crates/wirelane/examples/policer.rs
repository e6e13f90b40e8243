//! Forwards between two ports and limits the rate of each source address by a token bucket.
//!
//!     sudo target/release/examples/policer packet:eth0 packet:eth1 10_000_000
//!
//! The rate is in bits per second. A source may send 100 ms of it at once.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions};
use wirelane::wire::FlowKey;
use wirelane::{Error, Frame, Result};

/// The bits that a source may send, and the time of its last packet in nanoseconds.
type Buckets = HashMap<IpAddr, (f64, u64)>;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [first, second, rate] = &arguments[..] else {
        return Err(Error::usage("arguments", "two ports and a rate are needed"));
    };
    let rate = rate.replace('_', "").parse();
    let rate: f64 = rate.map_err(|_| Error::usage("rate", "give a number of bits per second"))?;
    let open = |port: &str| port::open(&port.parse()?, &OpenOptions::forwarder());
    let ports = vec![open(first)?, open(second)?];

    // A source may send through several queues: they share its bucket. One lock per batch.
    let (buckets, threads) = (Arc::<Mutex<Buckets>>::default(), Threads::default());
    let running = threads.until(&Halt::by_signals()?).forward(ports, |_from, out| {
        let buckets = Arc::clone(&buckets);
        out.before_send(move |batch| {
            let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
            batch.retain(|frame| conforms(&mut buckets, frame, rate));
        })
    })?;
    let outcome = running.join();
    // `filtered` counts the packets above the rate.
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.result().map(drop)
}

/// Whether the bucket of the frame's source has enough tokens; it then pays for the frame.
fn conforms(buckets: &mut Buckets, frame: &Frame, rate: f64) -> bool {
    let Ok(Some(flow)) = FlowKey::parse(frame.data()) else { return true }; // such as ARP
    let (burst, now) = (rate / 10.0, frame.timestamp());
    let (tokens, last) = buckets.entry(flow.addresses.source()).or_insert((burst, now));
    let added = rate * now.saturating_sub(*last) as f64 / 1e9;
    (*tokens, *last) = ((*tokens + added).min(burst), now.max(*last));
    let cost = f64::from(frame.original_len()) * 8.0;
    let is_enough = *tokens >= cost;
    *tokens -= if is_enough { cost } else { 0.0 };
    is_enough
}
