//! The kernel's own queueing layer: a packet socket that sends through the discipline of an
//! interface, and around it.
//!
//! ```text
//!   frames ─▶ AF_PACKET ─┬─ pfifo_fast ─┬─▶ wl-a ═══ wl-b: XDP_DROP
//!                        └─── bypass ───┘
//! ```
//!
//! With a named interface, packets are sent out of it, through the discipline that it has.

use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::frame::Batch;
use wirelane::port::{Backend, OpenOptions, Spec, Tx};
use wirelane_lab::{Lab, LabConfig};
use wirelane_os::bpf::XdpMode;
use wirelane_os::{affinity, link};

use super::bench::SUITE;
use crate::published::{Difference, difference};
use crate::row::{FigureRow, RowSubject, params};
use crate::suites::bed;
use crate::suites::programs::Drops;
use crate::suites::senders;

pub(super) const CASE: &str = "kernel";
/// The discipline of the near end: the default at the time of the source.
const DISCIPLINE: &str = "pfifo_fast";
const SIZE: usize = 64;
/// The path of a packet, and the value of the port's `bypass`.
const WAYS: [(&str, &str); 2] = [("qdisc", "off"), ("bypass", "on")];
/// How long to wait for room in a full ring, and at the end for packets in flight.
const ROOM: Duration = Duration::from_millis(1);
const FAREWELL: Duration = Duration::from_millis(200);
/// How long to wait for the first packet.
const PATIENCE: Duration = Duration::from_secs(1);

/// A cable whose far end drops packets, until this is dropped.
struct DroppingCable {
    lab: Lab,
    _drop: Drops,
}

/// The sender, and the samples: nanoseconds per packet through the discipline and around it.
pub(super) struct Kernel {
    cable: Option<DroppingCable>,
    interface: String,
    frames: Vec<Vec<u8>>,
    cpu: u32,
    samples: [Vec<f64>; 2],
}

impl Kernel {
    /// On a cable, or out of the interface of `port`.
    ///
    /// # Errors
    /// The privileges for a cable are missing, or the port is not of a packet socket.
    pub(super) fn new(port: Option<&Spec>) -> Result<Self> {
        let cable = match port {
            Some(_) => None,
            None => Some(DroppingCable::new()?),
        };
        let interface = match (&cable, port) {
            (Some(cable), _) => cable.lab.near.interface().to_owned(),
            (None, Some(port)) if matches!(port.backend, None | Some(Backend::Packet)) => {
                port.name.to_string_lossy().into_owned()
            }
            (None, _) => {
                let error = Error::usage("--port", "the kernel queues what a packet socket sends");
                return Err(error.help("name an interface: --port packet:eth0"));
            }
        };
        let (frames, cpu) = (senders::frames(1, SIZE)?, bed::cpus().last().copied().unwrap_or(0));
        Ok(Self { cable, interface, frames, cpu, samples: [Vec::new(), Vec::new()] })
    }

    /// Measures both ways once.
    ///
    /// # Errors
    /// The port cannot be opened, fails, or sends nothing.
    pub(super) fn measure(&mut self, window: Duration) -> Result<()> {
        let [queued, bypassing] = WAYS.map(|(_, bypass)| self.sample(bypass, window));
        let values = [queued?, bypassing?];
        self.samples.iter_mut().zip(values).for_each(|(samples, value)| samples.push(value));
        Ok(())
    }

    fn sample(&self, bypass: &str, window: Duration) -> Result<f64> {
        let spec: Spec = format!("packet:{}@0?bypass={bypass}", self.interface).parse()?;
        let options = OpenOptions::default().receive(false).transmit(true);
        let near = self.cable.as_ref().map(|cable| &cable.lab.near);
        let mut port = bed::open(near, &spec, &options)?;
        let ends = port.tx()?;
        port.start()?;
        let none = || Error::failed(self.interface.as_str(), "has no queue to send from");
        let mut tx = ends.into_iter().next().ok_or_else(none)?;
        let work = || {
            // If pinning fails, the scheduler chooses the CPU.
            let _ = affinity::pin(self.cpu);
            self.push(&mut tx, window / 4)?;
            let sent = self.push(&mut tx, window)?;
            tx.drain(FAREWELL).map(|_| sent)
        };
        let panicked =
            |_| Err(Error::failed(self.interface.as_str(), "a sender panicked: a defect"));
        let sent = thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(panicked));
        port.control().stop();
        sent
    }

    /// Sends for `window`, and until the first packet has been sent. Returns nanoseconds per
    /// packet.
    fn push(&self, tx: &mut Tx, window: Duration) -> Result<f64> {
        let mut batch = Batch::default();
        let (before, begin) = (tx.counters().packets.value(), Instant::now());
        let sent = |tx: &Tx| tx.counters().packets.value() - before;
        while begin.elapsed() < window || sent(tx) == 0 && begin.elapsed() < PATIENCE {
            let kept = batch.len();
            let room = batch.room();
            tx.allocate(&mut batch, room);
            for (frame, bytes) in batch.iter_mut().skip(kept).zip(self.frames.iter().cycle()) {
                // Cannot fail: the frames of the port are longer than the packets.
                let _ = frame.fill(bytes);
            }
            let taken = tx.transmit(&mut batch);
            tx.flush()?;
            if taken == 0 {
                tx.wait(ROOM)?;
            }
        }
        let elapsed = begin.elapsed();
        let packets = sent(tx);
        if packets == 0 {
            let cause = format!("sent nothing in {:.1} s", elapsed.as_secs_f64());
            let error = Error::failed(self.interface.as_str(), cause);
            return Err(
                error.help(format!("look whether it has a link: ip link show {}", self.interface))
            );
        }
        Ok(elapsed.as_nanos() as f64 / packets as f64)
    }

    pub(super) fn rows(&self) -> Vec<FigureRow> {
        let interface = if self.cable.is_some() { "veth" } else { "named" };
        let of = |path: &'static str| {
            let params = params![path = path, port = "packet", interface = interface, size = SIZE];
            RowSubject { suite: SUITE, case: CASE, peer: None, params }
        };
        let mut rows = Vec::new();
        for ((way, _), samples) in WAYS.iter().zip(&self.samples) {
            let rates = samples.iter().map(|ns| 1e9 / ns).collect();
            rows.push(of(way).row("ns_per_packet", samples.clone()));
            rows.push(of(way).row("packets_per_s", rates));
        }
        let [queued, bypassing] = &self.samples;
        let over = queued.iter().zip(bypassing).map(|(queued, bypassing)| queued - bypassing);
        // The source also sends through a packet socket; for the comparison, the discipline was
        // removed from its kernel.
        let source = difference(Difference::FifoOverNone).source();
        rows.push(of(WAYS[0].0).row("ns_over_bypass", over.collect()).with_source(Some(source)));
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

impl DroppingCable {
    fn new() -> Result<Self> {
        let lab = Lab::new(LabConfig::default())?;
        let near = lab.near.interface();
        let failed = |error| Error::os(format!("queueing discipline of {near}"), error);
        lab.near.inside(|| link::set_qdisc(near, DISCIPLINE))?.map_err(failed)?;
        let _drop = Drops::attach(&lab.far, XdpMode::Native)?;
        Ok(Self { lab, _drop })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use wirelane_testkit::privileged;
    use wirelane_testkit::process::run;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(20);

    #[test]
    fn privileged_a_cable_without_a_link_is_named() {
        if !privileged::require() {
            return;
        }
        let mut kernel = Kernel::new(None).unwrap();
        let far = &kernel.cable.as_ref().unwrap().lab.far;
        let down = || run(Command::new("ip").args(["link", "set", far.interface(), "down"]));
        far.inside(down).unwrap();
        let error = kernel.measure(WINDOW).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: sent nothing in ", kernel.interface)), "{error}");
        assert!(error.ends_with(&format!("ip link show {}", kernel.interface)), "{error}");
    }

    #[test]
    fn what_queues_nothing_is_refused() {
        for port in ["sim:1", "xdp:lo", "file:x.pcap"] {
            let error = Kernel::new(Some(&port.parse().unwrap())).err().unwrap();
            assert!(error.to_string().contains("packet socket"), "{error}");
        }
    }

    #[test]
    fn privileged_both_ways_of_a_cable_and_of_an_interface_are_measured() {
        if !privileged::require() {
            return;
        }
        let named: Spec = "packet:lo".parse().unwrap();
        for (port, interface) in [(None, "veth"), (Some(&named), "named")] {
            let mut kernel = Kernel::new(port).unwrap();
            kernel.measure(WINDOW).unwrap();
            kernel.measure(WINDOW).unwrap();
            let rows = kernel.rows();
            assert_eq!(rows.len(), 5, "{rows:?}");
            assert!(rows.iter().all(|row| row.params.has(("interface", interface))));
            let of = |path, metric| {
                let is_it =
                    |row: &&FigureRow| row.params.has(("path", path)) && row.metric == metric;
                rows.iter().find(is_it).unwrap().samples.clone()
            };
            let [queued, bypassing] = WAYS.map(|(path, _)| of(path, "ns_per_packet"));
            // A system call and a packet take their time.
            assert!(queued.iter().chain(&bypassing).all(|ns| *ns > 20.0), "{rows:?}");
            let over = of("qdisc", "ns_over_bypass");
            assert_eq!(over, [queued[0] - bypassing[0], queued[1] - bypassing[1]]);
        }
    }
}
