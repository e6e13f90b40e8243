//! Writes the TCP SYN packets of an interface to a pcapng file, each with a comment.
//!
//!     sudo target/release/examples/syn_comments packet:eth0 syn.pcapng
//!
//! Wireshark shows the comments, `tshark -Y frame.comment` finds them. ^C ends the capture.
#![allow(clippy::print_stdout)]

use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::pcap::{CaptureWriter, Class, Source, WriterOptions};
use wirelane::pipeline::{Consumer, Threads};
use wirelane::port::{self, OpenOptions};
use wirelane::wire::{Layers, TcpView};
use wirelane::{Batch, Error, Frame, Result};

/// Writes the packets of all queues.
struct Writer(CaptureWriter);

impl Consumer for Writer {
    fn consume(&mut self, _input: usize, batch: &mut Batch) -> Result<()> {
        for frame in batch.iter() {
            let comment = describe(frame).unwrap_or_default();
            self.0.write_with_comment(&frame.as_record(0), &comment)?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [spec, path] = &arguments[..] else {
        return Err(Error::usage("arguments", "a port and a file are needed"));
    };
    let filter: Filter = "tcp[tcpflags] & (tcp-syn | tcp-ack) == tcp-syn".parse()?;
    let port = port::open(&spec.parse()?, &OpenOptions::default().filter(filter))?;
    let interface = Source::new(spec, Class::Other, None);
    let options = WriterOptions::of_path(path.as_ref());
    let file = CaptureWriter::create(path, &[interface], options, 0)?;

    // One thread receives from all queues and writes.
    let threads = Threads::default().until(&Halt::by_signals()?);
    for writer in threads.spawn_one(port, Writer(file))?.join().result()? {
        println!("{} SYN packets in {path}", writer.0.finish(&[])?.packets);
    }
    Ok(())
}

/// The connection, and the window that its client offers.
fn describe(frame: &Frame) -> Option<String> {
    let layers = Layers::parse(frame.data()).ok()?;
    let (flow, tcp) = (layers.flow().ok()??, TcpView::new(layers.transport?.bytes).ok()?);
    Some(format!("{flow}: sequence {}, window {}", tcp.sequence(), tcp.window()))
}
