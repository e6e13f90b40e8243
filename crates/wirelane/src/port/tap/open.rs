//! Opens a TAP device: the device itself, its masks, and an end per queue and direction.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::tun::{self, Tap};
use wirelane_os::{OsError, iface};

use super::config::{self, Config};
use super::control::{self, TapDevice};
use super::rx::Receiver;
use super::tx::Transmitter;
use crate::error::{Error, Result};
use crate::frame::{Sink, SinkGso};
use crate::mask::{Class, QueueSet};
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, PoolGauge, Region};
use crate::port::accounting::{Accounting, FrameCounts};
use crate::port::control::Control;
use crate::port::info::{PortInfo, PortMode};
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::spec::{Backend, Spec};
use crate::port::tx::Tx;
use crate::stats::{RxCounters, TxCounters};

/// Headroom before each packet in bytes, for prepended headers and its pending offload.
const HEADROOM: u32 = 128;
/// Room for the longest frame of segmentation offload: 65535 bytes, with Ethernet and two tags.
const LONGEST: u32 = 65_535 + 22;
/// The minimum number of frames, if memory is short.
const LEAST_FRAMES: u32 = 8;
/// How long the kernel may take to start sending through a new device.
const RUNNING: Duration = Duration::from_secs(3);
/// A ready thread runs within this time, in nanoseconds; packets wait as long.
const LATENESS: u64 = 100_000_000;

/// Opens the device that `spec` names, in the calling thread's network namespace, creates it if it
/// is missing, and brings it up.
///
/// # Errors
/// A usage error for an unknown option or a queue that does not exist. Otherwise CAP_NET_ADMIN is
/// missing, the device is in use or of another kind, or there is no memory.
pub(crate) fn open(spec: &Spec, options: &OpenOptions) -> Result<Port> {
    let config = Config::parse(spec)?;
    let name = spec.name_text();
    let existed = iface::exists(name).map_err(|error| Error::os(name, error))?;
    let queues = config.queues(spec)?;
    let tap_options =
        tun::Options { vnet_hdr: true, persist: config.persist, ..Default::default() };
    let tap =
        Tap::open(name, usize::from(queues), tap_options).map_err(|error| refused(spec, error))?;
    let os = |error: OsError| refused(spec, error);
    let leaves_datagrams = tap.leaves_datagrams().map_err(os)?;
    let offload = control::tun_offload(options.internal.forwarding.offload, leaves_datagrams);
    tap.set_offload(offload).map_err(os)?;
    let mut notes = Vec::new();
    if options.internal.forwarding.offload.udp && !leaves_datagrams {
        notes.push(format!("{name}: before Linux 6.2 the kernel itself cuts long datagrams"));
    }
    if existed {
        notes.push(format!("{name} existed before: its addresses and settings are kept"));
    }
    if let Some(mtu) = config.mtu {
        iface::set_mtu(tap.name(), mtu).map_err(os)?;
    }
    let takes_long = offload.checksum || options.internal.forwarding.prepare_offload;
    let open = spec.queues.clone().unwrap_or(QueueSet::All);
    let mask = options.mask.clone();
    let device = TapDevice::new(spec, tap, queues, open, mask, takes_long, leaves_datagrams)?;
    let device = Arc::new(device);
    if let Some(bytes) = spec.offloads.gso_max {
        device.set_max_burst(bytes)?;
    }
    if !iface::flags(device.name()).map_err(os)?.is_up() {
        iface::up(device.name()).map_err(os)?;
    }
    // Before the device is running, the kernel drops packets. A device that had no queues may need
    // a second.
    if let Err(error) = iface::wait_until_running(device.name(), RUNNING) {
        notes.push(format!("{name} may lose the first packets that the kernel sends: {error}"));
    }
    let mtu = iface::mtu(device.name()).map_err(os)?;
    let selected =
        |queue: &u16| spec.queues.as_ref().is_none_or(|set| set.contains(usize::from(*queue)));
    let info = PortInfo {
        interface: Some(device.name().to_owned()),
        mac: iface::mac(device.name()).ok(),
        queues: (0..queues).filter(selected).collect(),
        notes,
        hardware: Some("tun".to_owned()),
        snaplen: options.snaplen,
        lateness: LATENESS,
        ..PortInfo::new(
            spec,
            Backend::Tap,
            if offload.checksum { PortMode::TapOffload } else { PortMode::Tap },
        )
    };
    let takes = SinkGso { tcp4: true, tcp6: true, udp: leaves_datagrams, udp_fragment: false };
    let mut ends = Ends { info, device, rx: Vec::new(), tx: Vec::new(), gauges: Vec::new() };
    ends.add(&config, options, if takes_long { LONGEST } else { mtu + 22 })?;
    let Ends { info, device, rx, tx, gauges } = ends;
    let mut port = Port::new(info, device, Accounting::new(move || FrameCounts::of(&gauges)));
    (port.rx, port.tx) = (rx, tx);
    port.sink =
        Sink { mtu: mtu as usize, checksum: true, gso_max: Some(LONGEST as usize), gso: takes };
    Ok(port)
}

/// The ends and the description of a port under construction.
struct Ends {
    info: PortInfo,
    device: Arc<TapDevice>,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
    gauges: Vec<PoolGauge>,
}

impl Ends {
    fn add(&mut self, config: &Config, options: &OpenOptions, longest: u32) -> Result<()> {
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
                // The device counts drops for all queues together.
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

    /// Creates a pool whose frames this port counts.
    fn pool(&mut self, chunks: u32, longest: u32, numa_node: Option<u32>) -> Result<Pool> {
        let chunk_size = chunk_size(longest);
        let region = Region::new(Region::bytes_for(chunks, chunk_size), numa_node)?;
        let config = PoolConfig { chunks, chunk_size, headroom: HEADROOM, numa_node };
        let pool = Pool::in_region(&region, config)?;
        self.gauges.push(pool.gauge());
        Ok(pool)
    }
}

/// Bytes of a chunk for a packet of at most `longest` bytes.
fn chunk_size(longest: u32) -> u32 {
    (longest + HEADROOM).next_multiple_of(2048)
}

/// The error and its remedy when the device cannot be opened.
fn refused(spec: &Spec, error: OsError) -> Error {
    let errno = error.errno().map(Errno::from_raw_os_error);
    let error = Error::os(spec.name_text(), error);
    match errno {
        Some(Errno::PERM | Errno::ACCESS) => error
            .help("needs root, or `ip tuntap add NAME mode tap multi_queue vnet_hdr user USER`"),
        Some(Errno::BUSY) => {
            error.help("another program has it open; end it, or name another device")
        }
        Some(Errno::INVAL) => {
            error.help("a device of this name must be a TAP device (with multi_queue)")
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => {
            error.help("the kernel needs the tun driver (CONFIG_TUN) and /dev/net/tun")
        }
        _ => error,
    }
}
