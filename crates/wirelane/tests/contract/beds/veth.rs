//! One end of a veth pair; the other end, in a separate namespace, is the medium.

use std::fs::File;
use std::io::{Read, Seek};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wirelane::internal::packet::PacketPort;
use wirelane::port::{OpenOptions, Rx};
use wirelane::{Batch, QueueMask, QueueSet};
use wirelane_os::packet::PacketSocket;
use wirelane_os::xdp::wait_for_receivers;
use wirelane_os::{iface, netns};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::{TxSteering, VethPair};

use crate::bed::Observed;
use crate::beds::Medium;
use crate::beds::ears::Ears;
use crate::session::PATIENCE;

/// A pair, with sockets that send and listen on its far end.
pub(crate) struct Veth {
    queues: u16,
    /// Frames sent through TX queue i + shift arrive on RX queue i.
    shift: u16,
    mtu: u32,
    near: Namespace,
    far: Namespace,
    pair: VethPair,
    steering: TxSteering,
    sender: PacketSocket,
    /// The number of frames that `send` refused and that the device also counts as dropped.
    refused: u64,
    ears: Ears,
    near_drops: Drops,
    far_drops: Drops,
}

impl Veth {
    /// Frames that the far end sends through TX queue i arrive on RX queue i.
    pub(crate) fn new(queues: u16) -> Self {
        Self::with(queues, 0, 1500)
    }

    /// For receivers that read the queue from the packet, such as generic XDP. `netif_get_rxqueue`
    /// reads 0 as no queue and i + 1 as queue i, but veth leaves the sender's TX queue in that
    /// field.
    pub(crate) fn generic(queues: u16) -> Self {
        Self::with(queues, 1, 1500)
    }

    /// With frames of up to 9014 bytes.
    pub(crate) fn jumbo(queues: u16) -> Self {
        Self::with(queues, 0, 9000)
    }

    fn with(queues: u16, shift: u16, mtu: u32) -> Self {
        let (near, far) = (Namespace::new(), Namespace::new());
        let sending = queues + shift;
        let pair = VethPair::uneven(&near, &far, queues.into(), sending.into(), mtu);
        let steering = pair.b.steering(usize::from(sending));
        let name = pair.b.interface.as_str();
        let (sender, ears) = far.inside(|| (sender(name), Ears::new(name, queues, 0)));
        let near_drops = Drops::of(near.name(), &pair.a.interface);
        let far_drops = Drops::of(far.name(), name);
        Self {
            queues,
            shift,
            mtu,
            near,
            far,
            steering,
            sender,
            refused: 0,
            ears,
            near_drops,
            far_drops,
            pair,
        }
    }
}

impl Medium for Veth {
    fn interface(&self) -> &str {
        &self.pair.a.interface
    }

    fn macs(&self) -> [[u8; 6]; 2] {
        [self.pair.a.mac, self.pair.b.mac]
    }

    fn again(&self) -> Self {
        Self::with(self.queues, self.shift, self.mtu)
    }

    fn inside<T>(&self, action: impl FnOnce() -> T) -> T {
        let _inside = netns::enter_named(self.near.name()).unwrap();
        action()
    }

    fn inject(&mut self, queue: u16, frame: &[u8]) -> bool {
        self.steering.select(usize::from(queue + self.shift));
        match self.sender.send_frame(frame) {
            Ok(sent) => sent == frame.len(),
            Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                self.refused += 1;
                false
            }
            Err(error) => panic!("cannot send from {}: {error}", self.far.name()),
        }
    }

    /// On a busy machine frames wait for ksoftirqd. A frame is charged to its sender until a
    /// receiver takes it; then the running softirq must end.
    fn settle(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.sender.outstanding().unwrap() > 0 {
            assert!(Instant::now() < deadline, "frames do not leave {}", self.far.name());
            thread::sleep(Duration::from_micros(200));
        }
        wait_for_receivers();
    }

    fn observe(&mut self) -> Vec<Observed> {
        self.ears.hear()
    }

    fn set_link(&mut self, up: bool) -> bool {
        set_link(&self.near, &self.pair.a.interface, up);
        if up {
            let wait = || iface::wait_until_running(&self.pair.a.interface, PATIENCE);
            self.near.inside(wait).unwrap();
        }
        true
    }

    fn host_sends(&mut self, frame: &[u8]) -> Option<u16> {
        let queue = self.queues - 1;
        let mut steering = self.pair.a.steering(usize::from(self.queues));
        steering.select(usize::from(queue));
        self.near.inside(|| sender(&self.pair.a.interface)).send_frame(frame).unwrap();
        Some(queue)
    }

    fn lost_before(&mut self) -> u64 {
        self.far_drops.read().transmitted.saturating_sub(self.refused)
    }

    fn lost_behind(&mut self) -> u64 {
        self.near_drops.read().transmitted + self.far_drops.read().received
    }
}

/// Takes an interface down or up.
pub(crate) fn set_link(namespace: &Namespace, interface: &str, up: bool) {
    let state = if up { "up" } else { "down" };
    namespace.run("ip", ["link", "set", interface, state]);
}

/// A socket that sends through an interface.
pub(crate) fn sender(interface: &str) -> PacketSocket {
    let socket = PacketSocket::open().unwrap();
    socket.bind(iface::index(interface).unwrap(), 0).unwrap();
    socket
}

/// A port that receives the packets of an interface. Its ends of class RX are first, by queue.
#[allow(dead_code, reason = "of the target contract-wire")]
pub(crate) fn listener(interface: &str) -> PacketPort {
    let spec = format!("packet:{interface}?ring=4Mi&block=64Ki&retire=1ms").parse().unwrap();
    let mask = QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: false };
    PacketPort::open(&spec, &OpenOptions::default().mask(mask)).unwrap()
}

/// Returns the packets that have arrived at a listener.
#[allow(dead_code, reason = "of the target contract-wire")]
pub(crate) fn hear(ears: &mut [Rx], batch: &mut Batch) -> Vec<Observed> {
    let mut observed = Vec::new();
    for rx in ears {
        while rx.receive(batch) > 0 {
            observed.extend(batch.iter().map(|frame| Observed {
                queue: frame.queue(),
                path: 0,
                bytes: frame.data().to_vec(),
            }));
            batch.clear();
        }
    }
    observed
}

/// The drop counters of an interface.
pub(crate) struct Drops {
    /// `/proc/net/dev` of its namespace.
    file: File,
    prefix: String,
}

/// A reading of [`Drops`].
pub(crate) struct Dropped {
    pub(crate) received: u64,
    pub(crate) transmitted: u64,
}

impl Drops {
    pub(crate) fn of(namespace: &str, interface: &str) -> Self {
        let _inside = netns::enter_named(namespace).unwrap();
        Self::here(interface)
    }

    /// The counters of an interface in the namespace of the calling thread.
    pub(crate) fn here(interface: &str) -> Self {
        let file = File::open("/proc/thread-self/net/dev").unwrap();
        Self { file, prefix: format!("{interface}:") }
    }

    pub(crate) fn read(&mut self) -> Dropped {
        let mut text = String::new();
        self.file.rewind().unwrap();
        self.file.read_to_string(&mut text).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&self.prefix)).unwrap();
        let fields: Vec<u64> =
            line.split_whitespace().map(|field| field.parse().unwrap()).collect();
        // net/core/net-procfs.c: there are eight fields per direction; the fourth of each is drops.
        Dropped { received: fields[3], transmitted: fields[11] }
    }
}
