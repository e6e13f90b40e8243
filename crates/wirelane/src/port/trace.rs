//! Writes a line for every frame that passes an end of a port.
//!
//! ```text
//! 1700000000.000000064 rx 3 64 198.18.0.7:2091 > 198.19.4.1:40077 udp
//! ```
//!
//! Seconds since the Unix epoch, class, queue (`-` for a packet tied to none), bytes on the wire,
//! and the first headers in words.

use std::fmt::Write as _;
use std::io::Write;

use wirelane_os::clock;
use wirelane_wire::{EthernetView, FlowKey};

use super::{Rx, Tx, record};
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::mask::Class;

/// Writes a line to `to` for each received frame, in one call per line. The first failure ends the
/// tracing and comes out of [`Rx::readiness`].
pub fn rx(rx: Rx, mut to: impl Write + Send + 'static) -> Rx {
    let mut line = String::new();
    record::rx(rx, move |frame| {
        line.clear();
        describe(&mut line, frame);
        write(&mut to, &line)
    })
}

/// Writes a line to `to` for each frame taken for transmission. The first failure ends the tracing
/// and comes out of [`Tx::flush`].
pub fn tx(tx: Tx, mut to: impl Write + Send + 'static) -> Tx {
    let (queue, mut line) = (tx.queue(), String::new());
    record::tx(tx, move |bytes| {
        line.clear();
        head(&mut line, clock::realtime_ns(), Class::Tx, queue, bytes.len() as u64);
        summary(&mut line, bytes);
        write(&mut to, &line)
    })
}

fn describe(line: &mut String, frame: &Frame) {
    let length = u64::from(frame.original_len());
    head(line, frame.timestamp(), frame.class(), frame.queue(), length);
    summary(line, frame.data());
}

fn head(line: &mut String, time: u64, class: Class, queue: u16, length: u64) {
    let (seconds, fraction) = (time / 1_000_000_000, time % 1_000_000_000);
    // Writing to a string cannot fail.
    let _ = match class {
        Class::Other => write!(line, "{seconds}.{fraction:09} {class} - {length} "),
        Class::Rx | Class::Tx => {
            write!(line, "{seconds}.{fraction:09} {class} {queue} {length} ")
        }
    };
}

/// The flow; of what has none, the Ethernet header.
fn summary(line: &mut String, bytes: &[u8]) {
    let _ = match (FlowKey::parse(bytes), EthernetView::new(bytes)) {
        (Ok(Some(flow)), _) => writeln!(line, "{flow}"),
        (_, Ok(ethernet)) => {
            let (source, destination) = (ethernet.source(), ethernet.destination());
            writeln!(line, "{source} > {destination} type {}", ethernet.ethertype())
        }
        _ => writeln!(line, "too short for Ethernet"),
    };
}

fn write(to: &mut impl Write, line: &str) -> Result<()> {
    to.write_all(line.as_bytes()).map_err(|error| Error::io("trace", "write", error))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::frame::Batch;
    use crate::port::sim::{Sim, Stream};
    use crate::port::{OpenOptions, Port, Readiness, Spec};

    struct Lines(Sender<String>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(|_| std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn open(text: &str) -> Sim {
        let options = OpenOptions { transmit: true, ..OpenOptions::default() };
        Sim::open(&text.parse().unwrap(), &options).unwrap()
    }

    #[test]
    fn a_line_per_frame_in_both_directions() {
        let spec: Spec = "sim:1?count=9&ip=mix&other=9&size=90".parse().unwrap();
        let stream = Stream::new(&spec).unwrap();
        let mut sim = open(&spec.to_string());
        let (lines, traced) = channel();
        let ends = sim.rx().into_iter().map(|end| rx(end, Lines(lines.clone())));
        let mut ends: Vec<_> = ends.collect();
        let mut out = tx(sim.tx().remove(0), Lines(lines.clone()));
        sim.start().unwrap();
        let mut batch = Batch::default();
        assert_eq!(ends[0].receive(&mut batch), 8);
        for (frame, line) in batch.iter().zip(traced.try_iter()) {
            let k = stream.number(frame.data()).unwrap();
            let time = frame.timestamp();
            let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
            let flow = stream.flow_key(k as u32);
            assert_eq!(line, format!("{seconds}.{rest:09} rx 0 90 {flow}\n"));
        }
        assert!(batch[0].fill(&[0; 14]) && batch[1].fill(&[]));
        assert_eq!(out.transmit(&mut batch), 8);
        let sent: Vec<_> = traced.try_iter().collect();
        assert_eq!(sent.len(), 8);
        let tail = " tx 0 14 00:00:00:00:00:00 > 00:00:00:00:00:00 type 0x0000\n";
        assert!(sent[0].ends_with(tail), "{}", sent[0]);
        assert!(sent[1].ends_with(" tx 0 0 too short for Ethernet\n"));
        assert_eq!(ends[1].receive(&mut batch), 1);
        assert!(traced.try_recv().unwrap().contains(" other - 90 "));
    }

    #[test]
    fn a_trace_that_cannot_be_written_ends_and_says_so() {
        let mut sim = open("sim:1?count=100");
        let (lines, traced) = channel();
        drop(traced);
        let mut end = rx(sim.rx().remove(0), Lines(lines.clone()));
        let mut out = tx(sim.tx().remove(0), Lines(lines));
        sim.start().unwrap();
        let mut batch = Batch::default();
        assert_eq!(end.receive(&mut batch), 64);
        assert!(end.readiness().is_err());
        assert!(matches!(end.readiness().unwrap(), Readiness::Now));
        assert_eq!(out.transmit(&mut batch), 64);
        assert!(out.flush().is_err() && out.flush().is_ok());
        assert_eq!(end.receive(&mut batch), 36);
    }
}
