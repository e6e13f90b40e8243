//! The options of an AF_XDP port, from its spec and [`OpenOptions`].

use std::time::Duration;

use wirelane_os::mmap::page_size;
use wirelane_os::xdp::{TX_BATCH_SIZE, XDP_PACKET_HEADROOM, XDP_UMEM_MIN_CHUNK_SIZE};

use super::mode::Mode;
use crate::error::{Error, Result};
use crate::pool::{PoolConfig, Region};
use crate::port::device::Device;
use crate::port::number::{parse_number, parse_time};
use crate::port::options::OpenOptions;
use crate::port::spec::Spec;

/// Slots of the TX ring.
const RING: u32 = 2048;
/// Frames to receive into, 32 MiB: enough for 3 Mpps while another task has the CPU from one
/// scheduler tick to the next, 4 ms at 250 Hz, and a third in reserve.
const FRAMES: u32 = 16384;
/// Memory for these frames on all queues together: from 17 queues on, each queue has fewer frames,
/// unless the user sets the number.
const BUDGET: usize = 512 << 20;
/// The minimum of that rule: most drivers have at most this many slots.
const FEWEST_FRAMES: u32 = 4096;
/// The minimum if memory is short.
pub(super) const LEAST_FRAMES: u32 = 64;
/// Frames for programs that create packets, and for copies of packets in foreign memory.
const TX_FRAMES: u32 = 1024;
/// Frames for the host's packets on a queue that only sends in zero copy: hardware rings have 256
/// to 1024 slots by default.
pub(super) const HOST_FRAMES: u32 = 1024;
/// Bytes of a chunk for packets of several buffers, and number of these chunks per queue.
const LARGE: u32 = 16384;
const LARGE_FRAMES: u32 = 256;
/// Bytes left free before packets to send.
pub(super) const TX_HEADROOM: u32 = 128;
/// Packets per turn of busy polling: the kernel's default.
pub(super) const BUSY_BUDGET: u16 = 64;
/// An Ethernet header with one tag, which the MTU does not include.
const LINK_HEADER: u32 = 18;

/// A switch that the port can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoSwitch {
    Auto,
    On,
    Off,
}

/// The options of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// The required mode; `None` selects the best one.
    pub(super) mode: Option<Mode>,
    /// Bytes per frame; `None` selects the smallest size that fits the MTU.
    pub(super) frame: Option<u32>,
    /// Chunks may start at any address, which is required for sizes that are not a power of two.
    pub(super) unaligned: bool,
    /// Frames to receive into, per queue; `None` depends on the number of queues.
    pub(super) frames: Option<u32>,
    /// Slots of the TX ring.
    pub(super) ring: u32,
    /// Slots of the RX ring; `None` means one per frame.
    pub(super) rx_ring: Option<u32>,
    /// Busy-poll an empty RX ring instead of sleeping.
    pub(super) spin: AutoSwitch,
    /// How long to busy-poll the device; `None` means never.
    pub(super) busy: Option<Duration>,
    /// Wake the kernel only if it requests it.
    pub(super) need_wakeup: bool,
    /// Packets per call that sends in copy mode.
    pub(super) tx_budget: u32,
    /// Packets in several buffers.
    pub(super) pieces: AutoSwitch,
    /// Bytes left free before received packets, in addition to the kernel's headroom.
    pub(super) headroom: u32,
    /// Restore VLAN tags that the driver strips.
    pub(super) tags: AutoSwitch,
    /// Request the hash of each received packet from the driver.
    pub(super) rx_hash: AutoSwitch,
    /// Request the hardware receive time of each packet from the driver.
    pub(super) rx_timestamps: AutoSwitch,
    /// Leave checksums of packets to send to the kernel or the device.
    pub(super) checksum: AutoSwitch,
    /// Request the transmission time of each packet.
    pub(super) tx_timestamps: bool,
    /// Have the device send each packet at the time of its frame.
    pub(super) launch_time: bool,
}

impl Config {
    /// Parses the options that `options.md` describes.
    ///
    /// # Errors
    /// An unknown option, or a value of the wrong form.
    pub(super) fn parse(spec: &Spec, open: &OpenOptions) -> Result<Self> {
        let mut options = spec.options();
        let modes = "auto, zerocopy, native or generic";
        let mode = options.value("mode", None, modes, |text| match text {
            "auto" => Some(None),
            _ => Mode::ALL.into_iter().find(|mode| mode.as_str() == text).map(Some),
        })?;
        let sizes = "a number of bytes from 2048 to 4096";
        let largest = page_size().min(LARGE as usize) as u32;
        let frame = options.value("frame", None, sizes, |text| {
            number(text, XDP_UMEM_MIN_CHUNK_SIZE, largest).map(Some)
        })?;
        let unaligned =
            options.value("chunks", None, "aligned or unaligned", |text| match text {
                "aligned" => Some(Some(false)),
                "unaligned" => Some(Some(true)),
                _ => None,
            })?;
        let odd = frame.is_some_and(|frame| !frame.is_power_of_two());
        if odd && unaligned == Some(false) {
            let cause = "aligned chunks have 2048 or 4096 bytes";
            return Err(Error::usage(format!("port '{spec}'"), cause));
        }
        let ring = options.value("ring", None, "a power of two from 64 to 32768", |text| {
            number(text, 64, 32768).filter(|n| n.is_power_of_two()).map(Some)
        })?;
        let frames = open.ring_bytes.map(|bytes| {
            let chunk = frame.unwrap_or(XDP_UMEM_MIN_CHUNK_SIZE) as usize;
            u32::try_from(bytes / chunk).unwrap_or(u32::MAX).clamp(64, 1 << 20)
        });
        let frames = frames.or(ring.map(|ring| 2 * ring));
        let frames = options.value("frames", frames, "a number from 64 to 1048576", |text| {
            number(text, 64, 1 << 20).map(Some)
        })?;
        let (rx_ring, ring) = (ring, ring.unwrap_or(RING));
        let busy = options.value("busy", None, "off or a time such as 20us, to 10ms", |text| {
            if text == "off" {
                Some(None)
            } else {
                parse_time(text, "us", "ms").map(|us| Some(Duration::from_micros(us)))
            }
        })?;
        let need_wakeup = options.value("need_wakeup", true, "on or off", switch)?;
        let tx_budget = options.value("tx_budget", ring, "a number from 32 to 32768", |text| {
            number(text, TX_BATCH_SIZE, 32768)
        })?;
        let three = |text: &str| match text {
            "auto" => Some(AutoSwitch::Auto),
            _ => switch(text).map(|on| if on { AutoSwitch::On } else { AutoSwitch::Off }),
        };
        let spin = options.value("spin", AutoSwitch::Auto, "auto, on or off", three)?;
        let pieces = options.value("sg", AutoSwitch::Auto, "auto, on or off", three)?;
        let tags = options.value("tags", AutoSwitch::Auto, "auto, on or off", three)?;
        let rx_hash = options.value("rx_hash", AutoSwitch::Off, "auto, on or off", three)?;
        let rx_timestamps =
            options.value("rx_timestamps", AutoSwitch::Off, "auto, on or off", three)?;
        let checksum = options.value("checksum", AutoSwitch::Auto, "auto, on or off", three)?;
        let headroom = options
            .value("headroom", 0, "a number of bytes to 1024", |text| number(text, 0, 1024))?;
        let tx_timestamps = options.value("tx_timestamps", false, "on or off", switch)?;
        let launch_time = options.value("launch_time", false, "on or off", switch)?;
        options.finish()?;
        Ok(Self {
            mode,
            frame,
            unaligned: unaligned.unwrap_or(odd),
            frames,
            ring,
            rx_ring,
            spin,
            busy,
            need_wakeup,
            tx_budget: tx_budget.min(ring),
            pieces,
            headroom,
            tags,
            rx_hash,
            rx_timestamps,
            checksum,
            tx_timestamps,
            launch_time,
        })
    }

    /// The layout of packets in memory for the longest packets of `device`, and the share of each
    /// of `queues` that receive.
    pub(super) fn shape(&self, device: &Device, queues: usize) -> Shape {
        let longest = device.mtu.saturating_add(LINK_HEADER);
        let taken = XDP_PACKET_HEADROOM + self.headroom;
        let zero_copy_room = |frame: u32| (frame - taken) / unit(device) * unit(device);
        let small = longest + taken <= XDP_UMEM_MIN_CHUNK_SIZE
            && (!self.may_be_zero_copy() || longest <= zero_copy_room(XDP_UMEM_MIN_CHUNK_SIZE));
        let frame = self.frame.unwrap_or(if small {
            XDP_UMEM_MIN_CHUNK_SIZE
        } else {
            page_size().min(4096) as u32
        });
        let room = frame - taken;
        let pieces = match self.pieces {
            AutoSwitch::Auto => longest > room,
            AutoSwitch::On => true,
            AutoSwitch::Off => false,
        };
        let most = if pieces { LARGE - TX_HEADROOM } else { frame };
        let (frames, rx_ring) = self.sizes(queues, frame);
        Shape {
            frames,
            rx_ring,
            others: Others::default(),
            frame,
            unaligned: self.unaligned,
            headroom: self.headroom,
            room,
            pieces,
            longest: longest.min(most),
            fits: longest <= if pieces { most } else { room },
            fits_zero_copy: pieces || longest <= zero_copy_room(frame),
        }
    }

    /// Frames of `frame` bytes and slots of the RX ring for each of `queues`.
    fn sizes(&self, queues: usize, frame: u32) -> (u32, u32) {
        let frames = self.frames.unwrap_or_else(|| {
            let share = BUDGET / queues.max(1) / frame.max(1) as usize;
            // A power of two, like the ring.
            let share = share.checked_ilog2().map_or(0, |power| 1 << power.min(FRAMES.ilog2()));
            share.clamp(FEWEST_FRAMES, FRAMES)
        });
        (frames, self.rx_ring.unwrap_or(frames.next_power_of_two()))
    }

    fn may_be_zero_copy(&self) -> bool {
        self.mode.is_none_or(Mode::is_zero_copy)
    }

    /// The pools that a queue needs.
    ///
    /// In zero copy a driver receives all packets on the queue into the socket's chunks, including
    /// the host's packets. So a queue that only sends also has chunks for them. The kernel keeps
    /// these.
    pub(super) fn pools(&self, shape: &Shape, receive: bool, transmit: bool) -> Pools {
        let zero_copy = self.may_be_zero_copy();
        let config = |chunks, chunk_size, headroom| PoolConfig {
            chunks,
            chunk_size,
            headroom,
            numa_node: None,
        };
        let Others { host, large, tx } = shape.others;
        let size = if shape.pieces { (large, LARGE) } else { (tx, shape.frame) };
        Pools {
            rx: if receive {
                Some(config(shape.frames, shape.frame, 0))
            } else {
                zero_copy.then(|| config(host, shape.frame, 0))
            },
            whole: (receive && shape.pieces).then(|| config(large, LARGE, TX_HEADROOM)),
            tx: transmit.then(|| config(size.0, size.1, TX_HEADROOM)),
        }
    }
}

/// The layout of packets in a port's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Frames to receive into, per queue.
    pub(super) frames: u32,
    /// Slots of the RX ring. By default one per frame, so that the ring is not full while there are
    /// frames.
    pub(super) rx_ring: u32,
    /// Frames for other purposes.
    others: Others,
    /// Bytes of a chunk that the kernel fills.
    pub(super) frame: u32,
    pub(super) unaligned: bool,
    pub(super) headroom: u32,
    /// Bytes of a packet in such a chunk.
    pub(super) room: u32,
    /// Packets can span several such chunks.
    pub(super) pieces: bool,
    /// The longest packet that can be sent.
    pub(super) longest: u32,
    /// Whether every packet within the MTU can be received.
    pub(super) fits: bool,
    /// The same in zero copy, in which some devices use only a part of each chunk.
    pub(super) fits_zero_copy: bool,
}

impl Shape {
    /// The shape with `frames` frames to receive into and at most as many of any other kind, for
    /// short memory. The RX ring still has a slot for each frame.
    pub(super) fn with_frames(self, frames: u32) -> Self {
        let Others { host, large, tx } = self.others;
        let others =
            Others { host: host.min(frames), large: large.min(frames), tx: tx.min(frames) };
        Self { frames, rx_ring: frames.next_power_of_two(), others, ..self }
    }
}

/// Frames of a queue for purposes other than receiving.
#[derive(Clone, Copy, Debug)]
struct Others {
    host: u32,
    large: u32,
    tx: u32,
}

impl Default for Others {
    fn default() -> Self {
        Self { host: HOST_FRAMES, large: LARGE_FRAMES, tx: TX_FRAMES }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// Chunks that the kernel fills.
    pub(super) rx: Option<PoolConfig>,
    /// Frames for packets received in pieces.
    pub(super) whole: Option<PoolConfig>,
    /// Frames for created or copied packets.
    pub(super) tx: Option<PoolConfig>,
}

impl Pools {
    /// The bytes that they need in a region.
    pub(super) fn bytes(&self) -> usize {
        let pools = [&self.rx, &self.whole, &self.tx];
        let bytes = |pool: &PoolConfig| Region::bytes_for(pool.chunks, pool.chunk_size);
        pools.into_iter().flatten().map(bytes).sum()
    }
}

/// The unit in which a device counts how much of a chunk it may fill in zero copy: the field
/// BSIZEPKT of SRRCTL has units of 1 KiB (`igb_setup_srrctl`, `igc_configure_rx_ring`,
/// `ixgbe_configure_srrctl`). The device would truncate longer packets.
fn unit(device: &Device) -> u32 {
    match device.hardware.as_deref() {
        Some("igb" | "igc" | "ixgbe") => 1024,
        _ => 1,
    }
}

fn number(text: &str, least: u32, most: u32) -> Option<u32> {
    let number = u32::try_from(parse_number(text)?).ok()?;
    (least..=most).contains(&number).then_some(number)
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(&text.parse().unwrap(), &OpenOptions::default())
    }

    #[test]
    fn every_option() {
        let config = parse(
            "xdp:a?mode=native&frame=3000&frames=1k&ring=512&spin=off&busy=20us&need_wakeup=off\
             &tx_budget=64&sg=on&headroom=64&tags=off&checksum=on\
             &tx_timestamps=on&launch_time=on&rx_hash=auto&rx_timestamps=on",
        )
        .unwrap();
        let expected = Config {
            mode: Some(Mode::Native),
            frame: Some(3000),
            unaligned: true,
            frames: Some(1000),
            ring: 512,
            rx_ring: Some(512),
            spin: AutoSwitch::Off,
            busy: Some(Duration::from_micros(20)),
            need_wakeup: false,
            tx_budget: 64,
            pieces: AutoSwitch::On,
            headroom: 64,
            tags: AutoSwitch::Off,
            rx_hash: AutoSwitch::Auto,
            rx_timestamps: AutoSwitch::On,
            checksum: AutoSwitch::On,
            tx_timestamps: true,
            launch_time: true,
        };
        assert_eq!(config, expected);
        assert_eq!(parse("xdp:a?mode=auto").unwrap(), parse("xdp:a").unwrap());
        assert!(parse("xdp:a?frame=2048&chunks=unaligned").unwrap().unaligned);
    }

    #[test]
    fn every_frame_has_a_place_in_the_rx_ring() {
        let sizes = |text: &str| {
            let config = parse(text).unwrap();
            let (frames, rx_ring) = config.sizes(1, 2048);
            (frames, rx_ring, config.ring)
        };
        assert_eq!(sizes("xdp:a"), (FRAMES, FRAMES, RING));
        assert_eq!(sizes("xdp:a?frames=100"), (100, 128, RING));
        assert_eq!(sizes("xdp:a?frames=100k"), (100_000, 1 << 17, RING));
        // Unless it is said how large the rings are.
        assert_eq!(sizes("xdp:a?ring=512"), (1024, 512, 512));
        assert_eq!(sizes("xdp:a?ring=512&frames=4096"), (4096, 512, 512));
    }

    #[test]
    fn many_queues_share_a_budget() {
        for (queues, frame, frames) in [
            (0, 2048, 16384),
            (1, 2048, 16384),
            (16, 2048, 16384),
            (17, 2048, 8192),
            (9, 4096, 8192),
            (64, 2048, 4096),
            (1000, 4096, 4096),
        ] {
            let sizes = parse("xdp:a").unwrap().sizes(queues, frame);
            assert_eq!(sizes, (frames, frames), "{queues} queues of {frame} bytes");
            assert_eq!(parse("xdp:a?frames=99").unwrap().sizes(queues, frame).0, 99);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for query in [
            "mode=zero",
            "frame=1024",
            "frame=8192",
            "frame=3000&chunks=aligned",
            "chunks=odd",
            "frames=1",
            "ring=100",
            "ring=65536",
            "spin=yes",
            "busy=1",
            "busy=11ms",
            "need_wakeup=1",
            "tx_budget=31",
            "sg=yes",
            "headroom=4096",
            "tags=7",
            "checksum=soft",
            "tx_timestamps=auto",
            "launch_time=auto",
            "rx_hash=l4",
            "rx_timestamps=1",
            "block=1",
        ] {
            let error = parse(&format!("xdp:a?{query}")).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Usage, "{query}: {error}");
        }
    }
}
