//! Two simulated ports with a cable between them: one is under test, the other injects and
//! observes.

use std::time::Duration;

use wirelane::internal::sim::cable;
use wirelane::port::{FrameCounts, OpenOptions, Port, Rx, Tx};
use wirelane::{Batch, Result};
use wirelane_wire::rss::IndirectionTable;
use wirelane_wire::{FlowKey, HashInput, ToeplitzKey};

use crate::bed::{Bed, Classes, Held, Observed, Promises};
use crate::traffic::Tag;

/// A cable between two ports with the same number of queues.
pub(crate) struct Cable {
    promises: Promises,
    /// For each queue, a flow that the hash with the standard key maps to it.
    flows: Vec<u16>,
    far: Option<Far>,
}

/// The far end.
struct Far {
    sim: Port,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
    batch: Batch,
}

const MACS: [[u8; 6]; 2] = [[2, 0x57, 0x4c, 1, 0, 1], [2, 0x57, 0x4c, 1, 0, 2]];
/// The number of frames of the far end per queue, and the ring size of every pair of queues. There
/// are more frames than ring entries, so that a ring becomes full first.
const FAR_FRAMES: u32 = 2048;
const RING: u32 = 1024;

impl Cable {
    pub(crate) fn new(queues: u16) -> Self {
        let promises = Promises {
            backend: "sim",
            mode: "cable",
            interface: None,
            queues,
            longest: 1514,
            refuses_longer: false,
            parts: false,
            classes: Classes::Absent,
            hold: 256,
            held: Held::Frames,
            fills: false,
            counts_losses: true,
            drops_known: true,
            calm: Duration::ZERO,
            macs: MACS,
        };
        let leads = |flow: u16| {
            let tag = Tag { run: 0, queue: 0, length: 60, number: 0 };
            let key = FlowKey::parse(&tag.frame(flow, MACS)).unwrap().unwrap();
            let hash = ToeplitzKey::MICROSOFT.hash(HashInput::with_ports(&key).bytes());
            IndirectionTable::<128>::spread(queues).queue(hash)
        };
        let flows = (0..queues).map(|queue| (0..).find(|flow| leads(*flow) == queue).unwrap());
        Self { promises, flows: flows.collect(), far: None }
    }

    fn far(&mut self) -> &mut Far {
        self.far.as_mut().expect("a port was opened before")
    }
}

impl Bed for Cable {
    fn promises(&self) -> &Promises {
        &self.promises
    }

    fn open(&mut self, queues: Option<&str>, options: &OpenOptions) -> Result<Port> {
        let n = self.promises.queues;
        let at = queues.map(|queues| format!("@{queues}")).unwrap_or_default();
        let near = format!("sim:{n}{at}?ring={RING}").parse()?;
        let far = format!("sim:{n}?frames={FAR_FRAMES}&ring={RING}").parse()?;
        let (near, mut far) = cable((&near, options), (&far, &OpenOptions::default()))?;
        far.start()?;
        let (rx, tx) = (far.rx().unwrap(), far.tx().unwrap());
        self.far = Some(Far { sim: far, rx, tx, batch: Batch::new(64) });
        Ok(near)
    }

    fn flow(&self, queue: u16) -> u16 {
        self.flows[usize::from(queue)]
    }

    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool {
        let Far { tx, batch, .. } = self.far();
        let tx = &mut tx[usize::from(queue)];
        if tx.allocate(batch, 1) == 0 {
            return false;
        }
        assert!(batch[0].fill(frame));
        let taken = tx.transmit(batch);
        batch.clear();
        taken == 1
    }

    /// Nothing to wait for: the cable is memory.
    fn settle(&mut self) {}

    fn observe(&mut self) -> Vec<Observed> {
        let Some(Far { rx, batch, .. }) = self.far.as_mut() else { return Vec::new() };
        let mut observed = Vec::new();
        for rx in rx {
            while rx.receive(batch) > 0 {
                let frames = batch.iter().map(|frame| frame.data().to_vec());
                observed.extend(frames.map(|bytes| Observed { queue: None, path: 0, bytes }));
                batch.clear();
            }
        }
        observed
    }

    /// Frames move over the cable, so the port receives frames that belong to the far end.
    fn frames(&mut self, port: &Port) -> FrameCounts {
        let far = self.far();
        far.tx.iter_mut().for_each(|tx| tx.flush().unwrap());
        let mut counts = far.sim.frames();
        counts += port.frames();
        counts
    }

    fn lost_behind(&mut self) -> u64 {
        let Some(far) = self.far.as_mut() else { return 0 };
        far.rx.iter().map(|rx| rx.counters().ring_full.value()).sum()
    }

    fn twin(&self) -> Box<dyn Bed> {
        Box::new(Self::new(self.promises.queues))
    }
}
