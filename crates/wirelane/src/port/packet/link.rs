//! Link changes of the interface under a ring: down, removed, and back.

use std::io;

use rustix::io::Errno;
use wirelane_os::packet::{ETH_P_ALL_BE, PacketSocket};

use super::control::PortProgress;
use crate::error::{Error, Result};
use crate::port::device::{link_type, removed};
use crate::stats::RxCounters;

/// The reaction to a removed interface.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnRemoval {
    End,
    /// Continue with a new interface of the same name.
    Wait {
        promiscuous: bool,
    },
}

/// State of the interface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// It has not gone down.
    Up,
    /// It has gone down, and may be up again or removed; the kernel reports neither.
    Uncertain,
    /// It was removed, and the port waits for a new one.
    Gone,
}

/// Follows the interface of one socket.
pub(super) struct LinkWatch {
    link: LinkState,
    /// How often it went down, and returned after its removal.
    downs: u64,
    returns: u64,
    on_removal: OnRemoval,
    /// The link-layer header of frames.
    link_type: u16,
    /// A socket error found while receiving.
    pub(super) pending: Option<io::Error>,
}

impl LinkWatch {
    pub(super) fn new(on_removal: OnRemoval, link_type: u16) -> Self {
        Self { link: LinkState::Up, downs: 0, returns: 0, on_removal, link_type, pending: None }
    }

    /// Whether it was removed, and the port waits for a new one.
    pub(super) fn is_gone(&self) -> bool {
        self.link == LinkState::Gone
    }

    /// Reports the events at the end. If another ring has found the interface removed and stopped
    /// this one, this ring may have seen only the start of the removal, as "down": that does not
    /// count.
    pub(super) fn report(&self, socket: &PacketSocket, progress: &PortProgress) {
        let removed =
            self.link == LinkState::Uncertain && socket.has_lost_interface().unwrap_or(false);
        progress.saw(self.downs.saturating_sub(removed.into()), self.returns);
    }

    /// Detects that the interface `name` went down or was removed. After the former, the kernel
    /// restores the socket itself (`packet_notifier`). After the latter, packets can come only from
    /// a new interface of its name.
    ///
    /// # Errors
    /// No more packets can arrive.
    pub(super) fn check(
        &mut self,
        socket: &PacketSocket,
        name: &str,
        counters: &RxCounters,
        progress: &PortProgress,
    ) -> Result<()> {
        counters.system_calls.add(1);
        let error = self.pending.take().or_else(|| match socket.take_error() {
            Ok(error) => error,
            Err(error) => Some(error.source),
        });
        match error {
            Some(error) if error.raw_os_error() != Some(Errno::NETDOWN.raw_os_error()) => {
                return Err(Error::failed(name, error.to_string()));
            }
            Some(_) if self.link != LinkState::Gone => {
                self.link = LinkState::Uncertain;
                self.downs += 1;
            }
            _ => {}
        }
        if self.link == LinkState::Up {
            return Ok(());
        }
        counters.system_calls.add(1);
        if !socket.has_lost_interface().unwrap_or(false) {
            return Ok(());
        }
        if self.link == LinkState::Uncertain {
            // The error was the start of the removal.
            self.downs = self.downs.saturating_sub(1);
        }
        self.link = LinkState::Gone;
        match self.on_removal {
            OnRemoval::End => Err(removed(name)),
            OnRemoval::Wait { promiscuous } => {
                counters.system_calls.add(1);
                self.rejoin(socket, name, promiscuous, progress)
            }
        }
    }

    /// Binds the socket to a new interface of the old name, if there is one. Ring and program are
    /// kept.
    fn rejoin(
        &mut self,
        socket: &PacketSocket,
        name: &str,
        promiscuous: bool,
        progress: &PortProgress,
    ) -> Result<()> {
        let Ok((index, hardware_type)) = socket.find_interface(name) else { return Ok(()) };
        if link_type(hardware_type) != Some(self.link_type) {
            let cause = "the interface came back with another type of link header";
            return Err(Error::failed(name, cause));
        }
        match socket.bind(index, ETH_P_ALL_BE) {
            // For an interface that is not up yet, the kernel returns an error but binds the socket
            // (packet_do_bind).
            Err(error) if error.errno() != Some(Errno::NETDOWN.raw_os_error()) => return Ok(()),
            _ => {}
        }
        if promiscuous && let Err(error) = socket.set_promiscuous(index, true) {
            let what = "not in promiscuous mode since the interface came back";
            progress.note(format!("{name}: {what}: {error}"));
        }
        self.link = LinkState::Uncertain;
        self.returns += 1;
        Ok(())
    }
}
