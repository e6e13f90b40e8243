//! The device under test between the two ports: another namespace with the other ends of two
//! cables.

use wirelane::Result;
use wirelane::frame::Batch;
use wirelane::pipeline::{Consumer, Forwarder, Running, Threads};
use wirelane::port::{self, OpenOptions, Rx};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::VethPair;

/// The tester has `a0` and `a1`. Their cables end here as `b0` and `b1`.
pub(crate) struct Middle {
    pub(crate) tester: Namespace,
    pub(crate) inside: Namespace,
    pub(crate) ends: [String; 2],
    _cables: [VethPair; 2],
}

impl Middle {
    pub(crate) fn new() -> Self {
        let (tester, inside) = (Namespace::new(), Namespace::new());
        let cables = [0, 1].map(|number| {
            let cable = VethPair::new(&tester, &inside, 1, 1500);
            let name = format!("a{number}");
            tester.run("ip", ["link", "set", &cable.a.interface, "down"]);
            tester.run("ip", ["link", "set", &cable.a.interface, "name", &name]);
            tester.run("ip", ["link", "set", &name, "up"]);
            cable
        });
        let ends = [0, 1].map(|number| cables[number].b.interface.clone());
        Self { tester, inside, ends, _cables: cables }
    }

    /// Joins both cables by a bridge.
    pub(crate) fn bridge(&self) {
        let ip = |args: &[&str]| drop(self.inside.run("ip", args));
        ip(&["link", "add", "br0", "type", "bridge"]);
        for end in &self.ends {
            ip(&["link", "set", end, "master", "br0"]);
        }
        ip(&["link", "set", "br0", "up"]);
    }

    /// Joins both cables by a program that applies `faults` to each signed packet, by its
    /// direction, flow and sequence number.
    pub(crate) fn forward(&self, faults: fn(usize, u32, u32) -> Fault) -> Running<Faulty> {
        self.inside.inside(|| {
            let open = |end: &String| {
                port::open(&format!("packet:{end}").parse().unwrap(), &OpenOptions::forwarder())
            };
            let mut ports: Vec<_> = self.ends.iter().map(|end| open(end).unwrap()).collect();
            let lanes = port::lanes(&mut ports).unwrap();
            let work = lanes.into_iter().map(|lane| {
                let from = lane.from;
                lane.work(|out| Faulty { out, from, faults, held: Vec::new() })
            });
            Threads::default().start(ports, work).unwrap()
        })
    }
}

/// The fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Lose,
    Copy,
    /// The packet leaves after this many later ones.
    Delay(usize),
}

pub(crate) struct Faulty {
    out: Forwarder,
    from: usize,
    faults: fn(usize, u32, u32) -> Fault,
    /// Held packets, with the number of packets that must leave before each.
    held: Vec<(usize, Vec<u8>)>,
}

impl Faulty {
    fn send(&mut self, packet: &[u8]) -> Result<()> {
        let mut batch = Batch::new(1);
        while batch.is_empty() {
            self.out.tx().allocate(&mut batch, 1);
            if batch.is_empty() {
                self.out.tx().wait(std::time::Duration::from_millis(1))?;
            }
        }
        assert!(batch.iter_mut().all(|frame| frame.fill(packet)));
        while !batch.is_empty() {
            self.out.tx().transmit(&mut batch);
            self.out.tx().flush()?;
        }
        Ok(())
    }
}

impl Consumer for Faulty {
    fn consume(&mut self, _: usize, batch: &mut Batch) -> Result<()> {
        for frame in batch.iter() {
            let packet = frame.data();
            let Some((flow, sequence)) = signed(packet) else { continue };
            match (self.faults)(self.from, flow, sequence) {
                Fault::Lose => continue,
                Fault::Delay(behind) => {
                    self.held.push((behind, packet.to_vec()));
                    continue;
                }
                Fault::Copy => self.send(packet)?,
                Fault::None => {}
            }
            self.send(packet)?;
            for (before, _) in &mut self.held {
                *before -= 1;
            }
            while let Some(due) = self.held.iter().position(|(before, _)| *before == 0) {
                let (_, packet) = self.held.remove(due);
                self.send(&packet)?;
            }
        }
        batch.clear();
        Ok(())
    }

    fn longest_sleep(&self) -> Option<std::time::Duration> {
        self.out.longest_sleep()
    }

    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        self.out.round(inputs, idle)
    }

    fn finish(&mut self) -> Result<()> {
        self.out.finish()
    }
}

/// Flow and sequence number, at their places in the signature. Packets of the host itself have
/// other addresses.
fn signed(packet: &[u8]) -> Option<(u32, u32)> {
    let is_test = matches!(packet.get(26..28), Some([198, 18 | 19]));
    let [.., f0, f1, f2, s0, s1, s2, s3, _, _, _, _, _, _, _] = *packet.last_chunk::<18>()?;
    let numbers = (u32::from_be_bytes([0, f0, f1, f2]), u32::from_be_bytes([s0, s1, s2, s3]));
    is_test.then_some(numbers)
}
