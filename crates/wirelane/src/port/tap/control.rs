//! State that the ends of a TAP port share: the device, its masks, start and stop.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use wirelane_os::link::LinkSettings;
use wirelane_os::packet::SockFilter;
use wirelane_os::tun::{self, Tap};

use super::losses::TapLosses;
use crate::error::{Error, Result};
use crate::frame::SinkGso;
use crate::mask::{QueueMask, QueueSet};
use crate::port::control::{Control, Driver};
use crate::port::spec::Spec;
use crate::port::steering::selection;
use crate::remedy::Remedy;
use crate::sync::lock;

pub(super) struct TapDevice {
    tap: Tap,
    /// The port, for errors.
    spec: String,
    /// The number of queues of the port, and the queues that it receives from.
    queues: u16,
    open: QueueSet,
    /// Receive frames have room for more than the MTU.
    takes_long: bool,
    /// The kernel can leave the segmentation of datagrams to the program.
    leaves_datagrams: bool,
    state: Mutex<TapState>,
    stopped: AtomicBool,
}

struct TapState {
    mask: QueueMask,
    started: bool,
    losses: TapLosses,
    /// The interface, for calls from any network namespace.
    settings: LinkSettings,
    /// The `gso_max_size` that this port has set.
    max_burst: Option<u32>,
}

impl TapDevice {
    /// Takes over the device; the port receives no packet before [`TapDevice::start`].
    pub(super) fn new(
        spec: &Spec,
        tap: Tap,
        queues: u16,
        open: QueueSet,
        mask: QueueMask,
        takes_long: bool,
        leaves_datagrams: bool,
    ) -> Result<Self> {
        let losses = TapLosses::of(tap.name());
        let settings = LinkSettings::open(tap.name());
        let settings = settings.map_err(|error| Error::os(tap.name(), error))?;
        let state =
            TapState { mask: QueueMask::NONE, started: false, losses, settings, max_burst: None };
        let state = Mutex::new(state);
        let (spec, stopped) = (spec.to_string(), AtomicBool::new(false));
        let device = Self { tap, spec, queues, open, takes_long, leaves_datagrams, state, stopped };
        device.set_mask(mask)?;
        Ok(device)
    }

    pub(super) fn name(&self) -> &str {
        self.tap.name()
    }

    /// The descriptor of `queue`, which must be open.
    pub(super) fn queue(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        self.tap.queue(usize::from(queue))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Accepts the packets that the mask selects, beginning with the next packet.
    fn apply(&self, state: &mut TapState) -> Result<()> {
        let rx = if state.mask.enabled { &state.mask.rx } else { &QueueSet::All };
        let is_chosen = |queue: &usize| rx.contains(*queue) && self.open.contains(*queue);
        let queues = 0..usize::from(self.queues);
        if !queues.clone().all(|queue| is_chosen(&queue)) {
            state.losses.mix();
        }
        let chosen = queues.filter(is_chosen).collect();
        let chosen = QueueMask { enabled: true, rx: chosen, ..QueueMask::NONE };
        self.attach(&selection::of_queues(&chosen, self.queues))
    }

    fn attach(&self, program: &[SockFilter]) -> Result<()> {
        self.tap.set_filter(program).map_err(|error| Error::os(self.name(), error))
    }

    /// Refuses missing queues, and packets that a TAP device does not see.
    fn check(&self, mask: &QueueMask) -> Result<()> {
        let refuse = |cause: String| Error::usage(format!("port '{}'", self.spec), cause);
        let unseen = match mask {
            _ if !mask.enabled => None,
            _ if mask.tx.largest().is_some() => Some("TX queues"),
            _ if mask.other && mask.rx.is_empty() => Some("packets of no queue (OTHER)"),
            _ => None,
        };
        if let Some(unseen) = unseen {
            let cause = format!("it receives what the device sends, by queue, but no {unseen}");
            return Err(refuse(cause).help(format!("packet:{} sees them", self.name())));
        }
        let Some(largest) = mask.rx.largest() else { return Ok(()) };
        let is_open =
            |queue: &usize| *queue < usize::from(self.queues) && self.open.contains(*queue);
        let mut named = (0..=largest).filter(|queue| mask.rx.contains(*queue));
        match named.find(|queue| !is_open(queue)) {
            Some(queue) if queue >= usize::from(self.queues) => {
                Err(refuse(format!("there is no RX queue {queue}: it has {}", self.queues)))
            }
            Some(queue) => Err(refuse(format!("RX queue {queue} is not open: {} are", self.open))),
            None => Ok(()),
        }
    }

    /// The error of a call on a queue.
    pub(super) fn failed(&self, call: &'static str, error: io::Error) -> Error {
        let gone = error.raw_os_error() == Some(Errno::BADFD.raw_os_error());
        let error = Error::io(self.name(), call, error);
        if gone { error.help("the device was removed") } else { error }
    }
}

/// The work that the kernel may leave to the program. This includes checksums: the kernel does not
/// complete checksums of frames that it does not segment. Datagrams only if the kernel supports it.
pub(super) fn tun_offload(offload: SinkGso, leaves_datagrams: bool) -> tun::Offload {
    let offload = SinkGso { udp: offload.udp && leaves_datagrams, ..offload };
    tun::Offload {
        checksum: offload != SinkGso::default(),
        tso4: offload.tcp4,
        tso6: offload.tcp6,
        tso_ecn: offload.tcp4 || offload.tcp6,
        uso4: offload.udp,
        uso6: offload.udp,
    }
}

impl Control for TapDevice {
    fn mask(&self) -> QueueMask {
        lock(&self.state).mask.clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        self.check(&mask)?;
        let mut state = lock(&self.state);
        let before = std::mem::replace(&mut state.mask, mask);
        let done = if state.started && !self.is_stopped() {
            self.apply(&mut state)
        } else if !state.started {
            self.attach(&selection::REJECT_ALL)
        } else {
            Ok(())
        };
        done.inspect_err(|_| state.mask = before)
    }

    fn set_offload(&self, offload: SinkGso) -> Result<()> {
        if offload != SinkGso::default() && !self.takes_long {
            let cause = "it was opened for frames up to its MTU";
            return Err(
                Error::usage(format!("port '{}'", self.spec), cause).remedy(Remedy::LongFrames)
            );
        }
        let offload = tun_offload(offload, self.leaves_datagrams);
        self.tap.set_offload(offload).map_err(|error| Error::os(self.name(), error))
    }

    fn set_max_burst(&self, bytes: u32) -> Result<()> {
        let mut state = lock(&self.state);
        if self.takes_long && state.max_burst != Some(bytes) {
            let changed = state.settings.set_gso_max_size(bytes);
            changed.map_err(|error| Error::os(self.name(), error))?;
            state.max_burst = Some(bytes);
        }
        Ok(())
    }

    fn stop(&self) {
        let mut state = lock(&self.state);
        state.losses.end();
        // A removed device accepts no packets.
        let _ = self.attach(&selection::REJECT_ALL);
        self.stopped.store(true, Ordering::Release);
    }
}

impl Driver for TapDevice {
    fn start(&self) -> Result<()> {
        let mut state = lock(&self.state);
        state.started = true;
        self.apply(&mut state)?;
        state.losses.begin();
        Ok(())
    }

    fn diagnostics(&self) -> Vec<String> {
        let state = lock(&self.state);
        state.losses.note().into_iter().collect()
    }
}
