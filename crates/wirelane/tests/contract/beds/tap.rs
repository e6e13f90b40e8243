//! A multi-queue TAP device, as the medium of `packet:` ports and as a port.

use wirelane_os::packet::PacketSocket;
use wirelane_os::{iface, netns};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;

use crate::bed::{Classes, Held, Observed, Promises};
use crate::beds::host::Host;
use crate::beds::veth::{Drops, set_link};
use crate::beds::{Medium, OnInterface};

/// The device as a port; its medium is the host's network stack.
pub(crate) fn port(queues: u16) -> OnInterface<Host> {
    let medium = Host::new(queues);
    let promises = Promises {
        backend: "tap",
        mode: "tap",
        interface: Some(medium.interface().to_owned()),
        queues,
        longest: 1514,
        // The host accepts longer frames.
        refuses_longer: false,
        parts: true,
        classes: Classes::Refused,
        hold: 256,
        held: Held::Frames,
        fills: false,
        counts_losses: false,
        drops_known: false,
        calm: medium.calm(),
        macs: medium.macs(),
    };
    let query = match queues {
        1 => "?queues=1&frames=1024",
        2 => "?queues=2&frames=1024",
        _ => "?queues=4&frames=1024",
    };
    OnInterface { medium, promises, query, steers: true }
}

/// A device and its namespace.
pub(crate) struct Tap {
    queues: u16,
    mac: [u8; 6],
    drops: Drops,
    // Dropped before its namespace.
    tap: MultiQueueTap,
    namespace: Namespace,
}

const NAME: &str = "wl-tap";
/// This neighbour exists only in the frames of the test.
const NEIGHBOUR: [u8; 6] = [2, 0x57, 0x4c, 2, 0, 1];

impl Tap {
    pub(crate) fn new(queues: u16) -> Self {
        let namespace = Namespace::new();
        let tap = MultiQueueTap::new(&namespace, NAME, usize::from(queues));
        let mac = namespace.inside(|| iface::mac(NAME)).unwrap();
        let drops = Drops::of(namespace.name(), NAME);
        Self { queues, mac, drops, tap, namespace }
    }
}

impl Medium for Tap {
    fn interface(&self) -> &str {
        NAME
    }

    fn macs(&self) -> [[u8; 6]; 2] {
        [self.mac, NEIGHBOUR]
    }

    fn again(&self) -> Self {
        Self::new(self.queues)
    }

    fn inside<T>(&self, action: impl FnOnce() -> T) -> T {
        let _inside = netns::enter_named(self.namespace.name()).unwrap();
        action()
    }

    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool {
        self.tap.write(usize::from(queue), frame);
        true
    }

    fn observe(&mut self) -> Vec<Observed> {
        // The device changes the queue within a flow when packets of the flow arrive on another
        // queue (`tun_flow_update`), and the bed reads one queue after the other.
        let observed = |(queue, bytes)| {
            let queue = queue as u16;
            Observed { queue: Some(queue), path: queue, bytes }
        };
        self.tap.drain().into_iter().map(observed).collect()
    }

    fn set_link(&mut self, up: bool) -> bool {
        set_link(&self.namespace, NAME, up);
        true
    }

    /// The device selects the queue by flow; the test finds the queue where the frame arrives.
    fn host_sends(&mut self, frame: &[u8]) -> Option<u16> {
        self.tap.drain();
        self.inside(|| {
            let socket = PacketSocket::open().unwrap();
            socket.bind(iface::index(NAME).unwrap(), 0).unwrap();
            socket.send_frame(frame).unwrap();
        });
        let sent = self.tap.drain();
        sent.into_iter().find(|(_, bytes)| bytes == frame).map(|(queue, _)| queue as u16)
    }

    fn lost_before(&mut self) -> u64 {
        self.drops.read().received
    }

    fn lost_behind(&mut self) -> u64 {
        self.drops.read().transmitted
    }
}
