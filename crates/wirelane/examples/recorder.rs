//! Records an interface into a directory, and keeps the newest packets.
//!
//!     sudo target/release/examples/recorder packet:eth0 /var/lib/packets 10_000
//!
//! The last argument is the most megabytes on disk. The directory contains pcapng files, and
//! `wirelane extract` finds packets in it. ^C ends the recording.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use wirelane::halt::Halt;
use wirelane::port::{self, OpenOptions};
use wirelane::{Error, Result};
use wirelane_store::record::{RecordConfig, Recording};
use wirelane_store::{Limits, StoreOptions};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [spec, directory, megabytes] = &arguments[..] else {
        return Err(Error::usage("arguments", "a port, a directory and megabytes are needed"));
    };
    let megabytes = megabytes.replace('_', "").parse::<u64>();
    let megabytes = megabytes.map_err(|_| Error::usage("megabytes", "give a number"))?;
    let port = port::open(&spec.parse()?, &OpenOptions::default())?;

    // The oldest packets of more than a week, or above the limit, are deleted.
    let week = Duration::from_secs(7 * 86_400);
    let limits = Limits::default().max_bytes(megabytes * 1_000_000).max_age(week);
    let config = RecordConfig::default().store(StoreOptions::default().limits(limits));
    let halt = Halt::by_signals()?;
    let recording = Recording::start(port, directory.as_ref(), &config)?;
    println!("recording into {directory}");
    while !recording.wait(Duration::from_secs(1)) && !halt.is_asked() {}
    let outcome = recording.join();

    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    let (store, total) = (&outcome.store, outcome.store.total());
    println!("{} packets written, {} segments deleted", total.written.packets, store.deleted);
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
