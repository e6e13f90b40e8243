//! `tap:IF`: a multi-queue TAP device, with the kernel's own stack at its other end.
//!
//! ```text
//!   kernel's TCP/IP ─▶ tap0, TX queue i ─▶ descriptor i ─▶ Rx i
//!   kernel's TCP/IP ◀─ tap0, RX queue i ◀─ descriptor i ◀─ Tx i
//! ```
//!
//! What the kernel sends through queue i is received here on queue i; what is transmitted here on
//! queue i the kernel receives on queue i. The device is made if there is none, and goes with the
//! port unless `persist=on`.
//!
//! With [`Forwarding::offload`](super::Forwarding::offload) the kernel leaves segmentation and
//! checksums to whoever receives here: it sends frames of up to 64 KB, each with an
//! [`Offload`](crate::frame::Offload). In the other direction it takes such frames always.
//!
//! What the stack sends faster than it is received the kernel drops (`txqueuelen` packets per queue fit), and counts for
//! all queues together: no queue knows its own, and [`Port::diagnostics`](super::Port::diagnostics) says how many were dropped.
//!
//! The masks become a classic BPF program of the device, so that a packet of a queue that is not
//! selected never reaches user space. A TAP device sees neither what is sent here (class TX) nor packets
//! without a queue (OTHER).
//!
#![doc = include_str!("options.md")]
//!
//! `gso_max=BYTES` also bounds the frames that
//! the kernel's stack makes for us to cut: it becomes the `gso_max_size` of the device.

mod config;
mod control;
mod losses;
mod open;
mod rx;
mod tx;

<<<<<<< HEAD
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::tun::{self, Tap};
use wirelane_os::{OsError, iface, link};

use self::config::Config;
use self::control::Device;
use self::rx::Receiver;
use self::tx::Transmitter;
use super::{Census, Control, FrameCounts, OpenOptions, Port, PortInfo, Rung, Rx, Spec, Tx};
use crate::error::{Error, Result};
use crate::frame::{Sink, SinkGso};
use crate::mask::{Class, QueueSet};
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, PoolGauge, Region};
use crate::stats::{RxCounters, TxCounters};

/// A TAP device that this program is at the other end of. See the [module documentation](self).
pub struct TapPort {
    info: PortInfo,
    device: Arc<Device>,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
    gauges: Vec<PoolGauge>,
    sink: Sink,
}

/// Bytes free before each packet, for headers that are prepended and for what is left to do to it.
const HEADROOM: u32 = 128;
/// Room for the longest frame of segmentation offload: 65535 bytes, with Ethernet and two tags.
const LONGEST: u32 = 65_535 + 22;
/// As few frames as there may be where memory is short.
const LEAST_FRAMES: u32 = 8;
/// How long the kernel may take until it sends through a new device.
const RUNNING: Duration = Duration::from_secs(3);
/// A thread that is ready runs within this time, in nanoseconds; until then packets wait.
const LATENESS: u64 = 100_000_000;

impl TapPort {
    /// Opens the device that `spec` names, in the calling thread's network namespace, makes it if it
    /// is not there, and brings it up.
    ///
    /// # Errors
    /// A usage error for an unknown option or a queue that does not exist; otherwise CAP_NET_ADMIN
    /// is missing, the device is in use or of another kind, or there is no memory.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let config = Config::parse(spec)?;
        let name = spec.name_text();
        let existed = iface::exists(name).map_err(|error| Error::os(name, error))?;
        let queues = config.queues(spec)?;
        let tap_options =
            tun::Options { vnet_hdr: true, persist: config.persist, ..Default::default() };
        let tap = Tap::open(name, usize::from(queues), tap_options)
            .map_err(|error| refused(spec, error))?;
        let os = |error: OsError| refused(spec, error);
        let offload = control::tun_offload(options.offload);
        tap.set_offload(offload).map_err(os)?;
        let mut notes = Vec::new();
        if existed {
            notes.push(format!("{name} existed before: its addresses and settings are kept"));
        }
        if let Some(mtu) = config.mtu {
            iface::set_mtu(tap.name(), mtu).map_err(os)?;
        }
        if let Some(bytes) =
            spec.offloads.gso_max.filter(|_| offload.checksum || options.prepare_offload)
        {
            link::set_gso_max_size(tap.name(), bytes).map_err(os)?;
        }
        let takes_long = offload.checksum || options.prepare_offload;
        let open = spec.queues.clone().unwrap_or(QueueSet::All);
        let device =
            Arc::new(Device::new(spec, tap, queues, open, options.mask.clone(), takes_long)?);
        if !iface::flags(device.name()).map_err(os)?.is_up() {
            iface::up(device.name()).map_err(os)?;
        }
        // Until then the kernel drops what it sends. A device that was without queues may need a second.
        if let Err(error) = iface::wait_until_running(device.name(), RUNNING) {
            notes.push(format!("{name} may lose the first packets that the kernel sends: {error}"));
        }
        let mtu = iface::mtu(device.name()).map_err(os)?;
        let selected =
            |queue: &u16| spec.queues.as_ref().is_none_or(|set| set.contains(usize::from(*queue)));
        let info = PortInfo {
            spec: spec.to_string(),
            backend: "tap",
            mode: if offload.checksum { "tap with offload" } else { "tap" }.to_owned(),
            interface: Some(device.name().to_owned()),
            queues: (0..queues).filter(selected).collect(),
            negotiation: vec![Rung {
                rung: "tap",
                outcome: "chosen",
                errno: None,
                cause: None,
                fix: None,
            }],
            notes,
            link_type: 1,
            hardware: Some("tun".to_owned()),
            speed: None,
            snaplen: options.snaplen,
            lossless: false,
            lateness: LATENESS,
        };
        let takes = SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false };
        let sink =
            Sink { mtu: mtu as usize, checksum: true, gso_max: Some(LONGEST as usize), gso: takes };
        let mut port =
            Self { info, device, rx: Vec::new(), tx: Vec::new(), gauges: Vec::new(), sink };
        port.add_ends(&config, options, if takes_long { LONGEST } else { mtu + 22 })?;
        Ok(port)
    }

    fn add_ends(&mut self, config: &Config, options: &OpenOptions, longest: u32) -> Result<()> {
        let ends = usize::from(options.receive) + usize::from(options.transmit);
        let pools = ends * self.info.queues.len();
        let bytes = |frames| pools * Region::bytes_for(frames, chunk_size(longest));
        let frames = config.frames.unwrap_or_else(|| {
            let budget = Allotment::of_rest();
            let frames = budget.fit(config::FRAMES, LEAST_FRAMES, bytes);
            self.info.notes.extend(budget.note("frames per queue", config::FRAMES, frames));
            frames
        });
        for (position, queue) in self.info.queues.clone().into_iter().enumerate() {
            let node = options.placement.numa_node(position);
            if options.receive {
                let counters = Arc::new(RxCounters::new(queue, Class::Rx));
                // The device counts what it drops for all queues together.
                counters.kernel.set(RxCounters::UNKNOWN);
                let pool = self.pool(frames, longest, node)?;
                let end = Receiver::new(&self.device, pool, &counters, options.snaplen);
                self.rx.push(Rx::new(end, counters));
            }
            if options.transmit {
                let counters = Arc::new(TxCounters::new(queue));
                let pool = self.pool(frames, longest, node)?;
                let end = Transmitter::new(&self.device, pool, &counters);
                self.tx.push(Tx::new(end, counters).takes_offloads(true));
            }
        }
        Ok(())
    }

    /// A pool whose frames this port counts.
    fn pool(&mut self, chunks: u32, longest: u32, numa_node: Option<u32>) -> Result<Pool> {
        let chunk_size = chunk_size(longest);
        let region = Region::new(Region::bytes_for(chunks, chunk_size), numa_node)?;
        let config = PoolConfig { chunks, chunk_size, headroom: HEADROOM, numa_node };
        let pool = Pool::in_region(&region, config)?;
        self.gauges.push(pool.gauge());
        Ok(pool)
    }
}

impl Port for TapPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx(&mut self) -> Vec<Rx> {
        std::mem::take(&mut self.rx)
    }

    fn tx(&mut self) -> Vec<Tx> {
        std::mem::take(&mut self.tx)
    }

    fn start(&mut self) -> Result<()> {
        self.device.start()
    }

    fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.device) as Arc<dyn Control>
    }

    fn census(&self) -> Census {
        let gauges = self.gauges.clone();
        Census::new(move || FrameCounts::of(&gauges))
    }

    fn sink(&self) -> Sink {
        self.sink
    }

    fn late_notes(&self) -> Vec<String> {
        self.device.note().into_iter().collect()
    }
}

impl Drop for TapPort {
    fn drop(&mut self) {
        self.device.stop();
    }
}

/// Bytes for a packet of `longest` bytes at most.
fn chunk_size(longest: u32) -> u32 {
    (longest + HEADROOM).next_multiple_of(2048)
}

/// What to do when the device cannot be had.
fn refused(spec: &Spec, error: OsError) -> Error {
    let errno = error.errno().map(Errno::from_raw_os_error);
    let error = Error::os(format!("port '{spec}'"), error);
    match errno {
        Some(Errno::PERM | Errno::ACCESS) => error.help(
            "TAP devices need CAP_NET_ADMIN, or a device that root made for this user: \
                        `ip tuntap add dev NAME mode tap multi_queue vnet_hdr user NAME`",
        ),
        Some(Errno::BUSY) => error.help(
            "another program has it open; end that program, or name \
         another device",
        ),
        Some(Errno::INVAL) => error.help(
            "the device may exist with other properties: it must be a TAP device, and \
             multi_queue for more than one queue",
        ),
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            error.help("the kernel needs the tun driver (CONFIG_TUN) and /dev/net/tun")
        }
        _ => error,
    }
}
=======
pub use self::open::open;
>>>>>>> house
