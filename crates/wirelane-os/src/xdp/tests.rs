use super::*;
use crate::iface;
use crate::mmap::{Mapping, Options};
use std::sync::atomic::Ordering;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

const SIZE: u32 = 64;
const CHUNK: u32 = 2048;

fn memory() -> Mapping {
    let options = Options { prefault: true, no_huge: true, ..Options::default() };
    Mapping::anonymous(SIZE as usize * CHUNK as usize, options).unwrap().0
}

fn umem(memory: &Mapping) -> Umem {
    Umem {
        address: memory.as_ptr(),
        len: memory.len(),
        chunk_size: CHUNK,
        headroom: 0,
        unaligned: false,
        tx_metadata: false,
    }
}

/// Sends one packet manually, through every ring that sending uses.
#[test]
fn privileged_sends_from_registered_memory() {
    if !privileged::require() {
        return;
    }
    let (ns_a, ns_b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&ns_a, &ns_b, 1, 1500);
    let before = pair.b.statistic("rx_packets");
    let memory = memory();
    ns_a.inside(|| {
        let index = iface::index(&pair.a.interface).unwrap();
        let socket = XskSocket::open().unwrap();
        // SAFETY: only the chunk that is sent is written, and before it is.
        unsafe { socket.register_umem(&umem(&memory)).unwrap() };
        socket.set_ring::<Fill>(SIZE).unwrap();
        socket.set_ring::<Completion>(SIZE).unwrap();
        socket.set_ring::<Tx>(SIZE).unwrap();
        let tx = socket.map_ring::<Tx>(SIZE).unwrap();
        let completion = socket.map_ring::<Completion>(SIZE).unwrap();
        socket.bind(index, 0, XDP_COPY | XDP_USE_NEED_WAKEUP).unwrap();
        assert!(tx.needs_wakeup(), "copy mode always wants to be told");
        assert!(!socket.is_zero_copy().unwrap());
        let address = 3 * u64::from(CHUNK) + 100;
        // SAFETY: inside the mapping; slot 0 is ours, as the ring is empty.
        unsafe {
            memory.as_ptr().add(address as usize).write_bytes(0xff, 60);
            tx.write(0, XdpDesc { addr: address, len: 60, options: 0 });
            tx.producer().as_ref().store(1, Ordering::Release);
        }
        socket.wake_tx().unwrap();
        assert_eq!((tx.occupied(), completion.occupied()), (0, 1));
        // SAFETY: the ring holds one address.
        assert_eq!(unsafe { completion.read(0) }, address);
        let statistics = socket.statistics().unwrap();
        assert_eq!(statistics.tx_invalid_descs, 0, "{statistics:?}");
        assert!(socket.take_error().unwrap().is_none());
    });
    assert_eq!(pair.b.statistic("rx_packets"), before + 1);
}

/// The error names the shape that the kernel refused.
#[test]
fn privileged_impossible_shapes() {
    if !privileged::require() {
        return;
    }
    let memory = memory();
    let socket = XskSocket::open().unwrap();
    for chunk_size in [1024, 3000, 8192] {
        let umem = Umem { chunk_size, ..umem(&memory) };
        // SAFETY: refused.
        let error = unsafe { socket.register_umem(&umem) }.unwrap_err();
        assert_eq!(error.errno(), Some(libc::EINVAL), "{chunk_size}");
        assert!(error.to_string().contains(&format!("chunks of {chunk_size}")), "{error}");
    }
    assert!(socket.set_ring::<Tx>(100).is_err());
    // SAFETY: no ring exists through which it could be used.
    unsafe {
        socket.register_umem(&Umem { chunk_size: 3000, unaligned: true, ..umem(&memory) }).unwrap();
    }
    socket.set_ring::<Tx>(SIZE).unwrap();
    assert!(socket.map_ring::<Rx>(SIZE).is_err(), "there is no RX ring");
    for (budget, taken) in [(31, false), (64, true), (65, false)] {
        assert_eq!(socket.set_tx_budget(budget).is_ok(), taken, "{budget}");
    }
}
