//! Masks, start and stop of an AF_XDP port, from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use wirelane_os::packet::PacketSocket;
use wirelane_os::xdp::wait_for_receivers;

use super::mask::check_mask;
use super::plan::XdpPlan;
use super::program::{Attachment, Verdicts};
use super::queue::XdpQueue;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::mask::{Class, QueueMask};
use crate::port::control::{Control, Driver};
use crate::port::device::{Device, ETHERNET};
use crate::port::spec::Spec;
use crate::sync::lock;

/// The port's program and the queues that it may give packets to.
pub(super) struct XdpControl {
    pub(super) spec: Spec,
    pub(super) device: Device,
    snaplen: u32,
    keep_management: bool,
    /// The user allows the host to lose all packets.
    may_take_all: bool,
    stopped: AtomicBool,
    state: Mutex<XdpState>,
    notes: Mutex<Vec<String>>,
}

struct XdpState {
    mask: QueueMask,
    phase: XdpPhase,
    /// `None` if there is no program.
    attachment: Option<Attachment>,
    /// Empty after the port was dropped, so that its sockets can be closed.
    queues: Vec<Arc<XdpQueue>>,
    /// Keeps the interface promiscuous until it is closed.
    promiscuous: Option<PacketSocket>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum XdpPhase {
    Opened,
    Started,
    Stopped,
}

impl XdpControl {
    pub(super) fn new(
        plan: XdpPlan,
        attachment: Option<Attachment>,
        queues: Vec<Arc<XdpQueue>>,
        promiscuous: Option<PacketSocket>,
    ) -> Self {
        Self {
            spec: plan.spec,
            device: plan.device,
            snaplen: plan.snaplen,
            keep_management: plan.verdicts.keep_management,
            may_take_all: plan.may_take_all,
            stopped: AtomicBool::new(false),
            state: Mutex::new(XdpState {
                mask: plan.mask,
                phase: XdpPhase::Opened,
                attachment,
                queues,
                promiscuous,
            }),
            notes: Mutex::default(),
        }
    }

    /// Whether no more packets will enter the rings.
    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Keeps a diagnostic for the report.
    pub(super) fn note(&self, note: String) {
        lock(&self.notes).push(note);
    }

    /// The receiver of `queue` was dropped: its packets continue to the host.
    pub(super) fn abandon(&self, queue: u16) {
        let mut state = lock(&self.state);
        if let Some(attachment) = &state.attachment {
            // Fails only if the queue no longer exists.
            let _ = attachment.clear(u32::from(queue));
        }
        state.queues.retain(|other| other.number != queue || other.rx.is_none());
    }

    /// Reports a program that was detached, unless the interface was removed, which the receivers
    /// report.
    fn check_program(&self, state: &XdpState) {
        let gone = |attachment: &Attachment| attachment.is_attached().is_ok_and(|there| !there);
        let unbound = |queue: &Arc<XdpQueue>| {
            // xsk_notifier() takes the interface from the socket, and xsk_sendmsg() reports that.
            let woken = queue.socket().wake_tx();
            woken.is_err_and(|error| error.raw_os_error() == Some(Errno::NXIO.raw_os_error()))
        };
        if state.attachment.as_ref().is_some_and(gone) && !state.queues.iter().any(unbound) {
            self.note(format!(
                "another program detached the XDP program from {}",
                self.device.name
            ));
        }
    }
}

impl Control for XdpControl {
    fn mask(&self) -> QueueMask {
        lock(&self.state).mask.clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        check_mask(&self.device, &self.spec, &mask)?;
        let mut state = lock(&self.state);
        if state.phase == XdpPhase::Started {
            let before = state.mask.clone();
            if let Err(error) = select(&state, &before, &mask) {
                // Best effort: the first error is the one to report.
                let _ = select(&state, &mask, &before);
                return Err(error);
            }
        }
        state.mask = mask;
        Ok(())
    }

    fn set_filter(&self, filter: Option<&Filter>) -> Result<()> {
        if filter.is_none() && !self.may_take_all {
            let cause = "without a filter it would take every packet away from the host";
            return Err(Error::usage(format!("port '{}'", self.spec), cause)
                .help("open it with a filter, or to take all packets"));
        }
        let filter = filter.map(|filter| filter.program(ETHERNET, self.snaplen)).transpose()?;
        let state = lock(&self.state);
        match &state.attachment {
            Some(attachment) if state.phase != XdpPhase::Stopped => {
                attachment.replace(&Verdicts { keep_management: self.keep_management, filter })
            }
            _ => Ok(()),
        }
    }

    fn stop(&self) {
        let mut state = lock(&self.state);
        if state.phase == XdpPhase::Stopped {
            return;
        }
        if state.phase == XdpPhase::Started {
            self.check_program(&state);
        }
        state.phase = XdpPhase::Stopped;
        if let Some(attachment) = &state.attachment {
            for queue in &state.queues {
                let _ = attachment.clear(u32::from(queue.number));
            }
            // Zero-copy sending needs the program until it is done: the program is then detached
            // with the port.
            let sends = |queue: &Arc<XdpQueue>| queue.tx.is_some() && queue.is_zero_copy();
            if !state.queues.iter().any(sends)
                && let Err(error) = attachment.detach()
            {
                self.note(error.to_string());
            }
            // A packet that met the program may still be entering a ring. Waits until every
            // processor has passed a quiescent state, as each does between two turns of receiving.
            wait_for_receivers();
        }
        self.stopped.store(true, Ordering::Release);
    }
}

impl Driver for XdpControl {
    /// Gives the packets of the selected queues to their sockets.
    ///
    /// # Errors
    /// The system refuses. Queues that were already selected stay selected.
    fn start(&self) -> Result<()> {
        let mut state = lock(&self.state);
        if state.phase != XdpPhase::Opened {
            return Ok(());
        }
        let mask = state.mask.clone();
        select(&state, &QueueMask::NONE, &mask)?;
        state.phase = XdpPhase::Started;
        Ok(())
    }

    fn diagnostics(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }

    /// The port was dropped; only its ends remain.
    fn release(&self) {
        self.stop();
        let mut state = lock(&self.state);
        let queues = std::mem::take(&mut state.queues);
        let gone = (state.attachment.take(), state.promiscuous.take(), queues);
        // Closing sockets takes time; callers for the masks need not wait for it.
        drop(state);
        drop(gone);
    }
}

/// Updates the sockets of the queues whose selection differs between two masks.
fn select(state: &XdpState, before: &QueueMask, after: &QueueMask) -> Result<()> {
    let Some(attachment) = &state.attachment else { return Ok(()) };
    for queue in state.queues.iter().filter(|queue| queue.rx.is_some()) {
        let selected = |mask: &QueueMask| mask.selects(Class::Rx, usize::from(queue.number));
        match (selected(before), selected(after)) {
            (false, true) => attachment.set_socket(u32::from(queue.number), queue.fd())?,
            (true, false) => attachment.clear(u32::from(queue.number))?,
            _ => {}
        }
    }
    Ok(())
}
