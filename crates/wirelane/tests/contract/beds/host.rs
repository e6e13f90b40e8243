//! The host behind a TAP device: its network stack is the medium of a `tap:` port.
//!
//! ```text
//!   inject: packet socket ─▶ wl-host, TX queue by flow ─▶ port
//!   observe: packet sockets ◀─ wl-host, RX queue i ◀─ port, TX queue i
//! ```

use std::fs::File;
use std::io::{Read, Seek};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::packet::PacketSocket;
use wirelane_os::tun::{Options, Tap};
use wirelane_os::{iface, netns};
use wirelane_testkit::netns::Namespace;

use crate::bed::Observed;
use crate::beds::Medium;
use crate::beds::ears::Ears;
use crate::beds::veth::{sender, set_link};
use crate::session::PATIENCE;
use crate::traffic::Tag;

/// A persistent device, so that the sockets on it stay valid when ports are opened and closed.
pub(crate) struct Host {
    queues: u16,
    mac: [u8; 6],
    /// For each queue, a flow that the device sends through it.
    flows: Vec<u16>,
    sender: PacketSocket,
    carrier: File,
    // Dropped before their namespace.
    ears: Ears,
    namespace: Namespace,
}

const NAME: &str = "wl-host";
/// This neighbour exists only in the frames of the test.
const NEIGHBOUR: [u8; 6] = [2, 0x57, 0x4c, 3, 0, 1];

impl Host {
    pub(crate) fn new(queues: u16) -> Self {
        let namespace = Namespace::new();
        let options = Options { persist: true, ..Options::default() };
        let (mac, flows, sender, ears) = namespace.inside(|| {
            let tap = Tap::open(NAME, usize::from(queues), options).unwrap();
            iface::up(NAME).unwrap();
            iface::wait_until_running(NAME, PATIENCE).unwrap();
            let (sender, mac) = (sender(NAME), iface::mac(NAME).unwrap());
            let flows = (0..queues).map(|queue| flow_of(&tap, &sender, queue)).collect();
            // `tun_get_user` records queue i, and `skb_record_rx_queue` stores it as i + 1.
            (mac, flows, sender, Ears::new(NAME, queues, 1))
        });
        let carrier = namespace.open_sysfs(&format!("class/net/{NAME}/carrier"));
        Self { queues, mac, flows, sender, carrier, ears, namespace }
    }
}

/// Finds a flow that the device sends through `queue`. The device selects the queue by a hash with
/// a secret key, in the same way for all devices with this number of queues
/// (`tun_automq_select_queue`).
fn flow_of(tap: &Tap, sender: &PacketSocket, queue: u16) -> u16 {
    let mut buffer = [0; 2048];
    let leads = |flow: &u16| {
        let tag = Tag { run: 0, queue: 0, length: 60, number: 0 };
        sender.send_frame(&tag.frame(*flow, [NEIGHBOUR; 2])).unwrap();
        let queues = 0..tap.queues();
        let mut came = queues.filter(|queue| tap.read(*queue, &mut buffer).is_ok());
        came.next() == Some(usize::from(queue))
    };
    (0..1000).find(leads).expect("a flow for every queue")
}

impl Host {
    /// Whether a process has a queue of the device open: otherwise the device has no carrier.
    fn has_queues(&mut self) -> bool {
        let mut text = String::new();
        self.carrier.rewind().unwrap();
        self.carrier.read_to_string(&mut text).unwrap();
        text.trim() != "0"
    }
}

impl Medium for Host {
    fn interface(&self) -> &str {
        NAME
    }

    fn macs(&self) -> [[u8; 6]; 2] {
        [NEIGHBOUR, self.mac]
    }

    fn again(&self) -> Self {
        Self::new(self.queues)
    }

    fn inside<T>(&self, action: impl FnOnce() -> T) -> T {
        let _inside = netns::enter_named(self.namespace.name()).unwrap();
        action()
    }

    /// A concurrent test that starts a program briefly holds copies of all descriptors, including
    /// the queues of the previous port. The device would count them as its first queues.
    fn make_room(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.has_queues() {
            assert!(Instant::now() < deadline, "the queues of the port before stay open");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn flow(&self, queue: u16) -> u16 {
        self.flows[usize::from(queue)]
    }

    /// The flow of the frame selects the queue.
    fn inject(&mut self, _queue: u16, frame: &[u8]) -> bool {
        self.sender.send_frame(frame).is_ok()
    }

    fn observe(&mut self) -> Vec<Observed> {
        self.ears.hear()
    }

    fn set_link(&mut self, up: bool) -> bool {
        set_link(&self.namespace, NAME, up);
        true
    }

    /// All packets that the port receives come from the host.
    fn host_sends(&mut self, _frame: &[u8]) -> Option<u16> {
        None
    }

    /// Unknown, because the device also counts frames that masks reject as dropped.
    fn lost_before(&mut self) -> u64 {
        0
    }

    /// The host receives each frame within the call that writes it.
    fn lost_behind(&mut self) -> u64 {
        0
    }
}
