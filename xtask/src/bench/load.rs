//! The traffic that captures are measured with: UDP packets of several flows, paced.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirelane_os::packet::PacketSocket;
use wirelane_os::{clock, iface};
use wirelane_testkit::packets;

use super::Result;

/// Enough for every transmit queue to get its share: the kernel picks the queue by flow.
const FLOWS: u16 = 64;
/// Packets sent without a pause.
const BURST: u64 = 32;

/// How much traffic there is, and how fast.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) packets: u64,
    pub(super) per_second: u64,
    /// Bytes of a packet, without frame check sequence.
    pub(super) size: usize,
}

/// What sending took.
pub(super) struct Sent {
    /// CPU time inside system calls. Where the receiving interface is the other end of a veth, the
    /// kernel's work for those that capture there is done in these calls.
    pub(super) system: Duration,
    pub(super) elapsed: Duration,
}

/// Sends `load` to `interface`, from the calling thread and its network namespace.
///
/// The packets are addressed to a station that does not exist: the receiving host shows them to
/// those that capture and drops them before it would answer.
pub(super) fn send(load: Load, interface: &str, interrupted: &AtomicBool) -> Result<Sent> {
    let failed = |error: wirelane_os::OsError| format!("cannot send to {interface}: {error}");
    let socket = PacketSocket::open().map_err(failed)?;
    // Protocol 0: a socket that only sends.
    socket.bind(iface::index(interface).map_err(failed)?, 0).map_err(failed)?;
    let stations = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0x99]);
    let frame = |flow: u16| {
        packets::udp4(u64::from(flow))
            .flow(flow)
            .length(load.size)
            .macs(stations.0, stations.1)
            .build()
    };
    let frames: Vec<_> = (0..FLOWS).map(frame).collect();
    let mut flows = frames.iter().cycle();

    let (used, started) = (clock::thread_cpu(), clock::monotonic_ns());
    let mut sent = 0;
    while sent < load.packets && !interrupted.load(Ordering::Relaxed) {
        let due = started + sent * 1_000_000_000 / load.per_second.max(1);
        // Spinning keeps the clock rate and the wake-up time of the CPU out of the picture.
        while clock::monotonic_ns() < due {
            std::hint::spin_loop();
        }
        let burst = BURST.min(load.packets - sent);
        for frame in flows.by_ref().take(burst as usize) {
            while let Err(errno) = rustix::io::write(socket.as_fd(), frame) {
                if !matches!(errno, rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) {
                    return Err(format!("cannot send to {interface}: {errno}"));
                }
                thread::yield_now();
            }
        }
        sent += burst;
    }
    let elapsed = Duration::from_nanos(clock::monotonic_ns() - started);
    Ok(Sent { system: clock::thread_cpu().since(used).system, elapsed })
}
