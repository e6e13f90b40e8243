//! Logs the DNS queries and answers of an interface: time, client, name, type and result.
//!
//!     sudo target/release/examples/dns_log packet:eth0
#![allow(clippy::print_stdout)]

use std::time::Duration;

use wirelane::filter::Filter;
use wirelane::port::{self, OpenOptions};
use wirelane::wire::{Layers, UdpView};
use wirelane::{Batch, Error, Frame, Result, pipeline};

fn main() -> Result<()> {
    let Some(spec) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name a port, such as packet:eth0"));
    };
    let options = OpenOptions::default().filter("udp port 53".parse::<Filter>()?);
    let mut port = port::open(&spec.parse()?, &options)?;
    let mut queues = port.rx()?;
    port.start()?;
    // This thread receives from all queues.
    pipeline::run(&mut queues, |_input, batch: &mut Batch| {
        batch.iter().filter_map(line).for_each(|line| println!("{line}"));
        Ok(())
    })
}

/// The line for a DNS message.
fn line(frame: &Frame) -> Option<String> {
    let layers = Layers::parse(frame.data()).ok()?;
    let addresses = layers.network.addresses()?;
    let message = UdpView::new(layers.transport?.bytes).ok()?.payload();
    let (name, kind) = question(message.get(12..)?)?;
    let kind = match kind {
        1 => "A".to_owned(),
        28 => "AAAA".to_owned(),
        _ => format!("TYPE{kind}"), // RFC 3597
    };
    let [_, _, flags, code, _, _, high, low] = *message.first_chunk()?;
    let (client, result) = match flags & 0x80 {
        0 => (addresses.source(), "query".to_owned()),
        _ if code & 15 != 0 => (addresses.destination(), format!("error {}", code & 15)),
        _ => (addresses.destination(), format!("{} answers", u16::from_be_bytes([high, low]))),
    };
    let time = Duration::from_nanos(frame.timestamp()).as_secs_f64();
    Some(format!("{time:.6} {client} {name} {kind} {result}"))
}

/// The name and the type of the first question (RFC 1035 section 4.1.2).
fn question(mut rest: &[u8]) -> Option<(String, u16)> {
    let mut name = String::new();
    while let Some((len @ 1.., after)) = rest.split_first() {
        let (label, after) = after.split_at_checked(usize::from(*len))?;
        name += &format!("{}.", label.escape_ascii());
        rest = after;
    }
    Some((name, u16::from_be_bytes(*rest.get(1..)?.first_chunk()?)))
}
