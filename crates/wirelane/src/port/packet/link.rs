//! The interface under a ring: it goes down, is removed, and comes back.

use std::io;

use rustix::io::Errno;
use wirelane_os::packet::{ETH_P_ALL_BE, PacketSocket};

use super::control::Progress;
use crate::error::{Error, Result};
use crate::port::device::{link_type, removed};
use crate::stats::RxCounters;

/// What to do when the interface is removed.
#[derive(Clone, Copy, Debug)]
pub(super) enum OnRemoval {
    End,
    /// Go on as soon as there is one of the same name.
    Wait {
        promiscuous: bool,
    },
}

/// What is known of the interface.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    /// It was never seen to go down.
    Up,
    /// It went down and may be up again or removed; the kernel reports neither.
    Uncertain,
    /// It is gone, and awaited.
    Gone,
}

/// Follows the interface of one socket.
pub(super) struct LinkWatch {
    link: Link,
    /// How often it went down, and came back after it was removed.
    downs: u64,
    returns: u64,
    on_removal: OnRemoval,
    /// The link-layer header of frames.
    link_type: u16,
    /// An error of the socket that receiving has found.
    pub(super) pending: Option<io::Error>,
}

impl LinkWatch {
    pub(super) fn new(on_removal: OnRemoval, link_type: u16) -> Self {
        Self { link: Link::Up, downs: 0, returns: 0, on_removal, link_type, pending: None }
    }

    /// Whether it was removed, and is awaited.
    pub(super) fn is_gone(&self) -> bool {
        self.link == Link::Gone
    }

    /// Tells at the end what was seen. A ring that is stopped because another one has found the
    /// interface removed may have seen it go down only, which was the beginning of that.
    pub(super) fn report(&self, socket: &PacketSocket, progress: &Progress) {
        let removed = self.link == Link::Uncertain && socket.has_lost_interface().unwrap_or(false);
        progress.saw(self.downs.saturating_sub(removed.into()), self.returns);
    }

    /// Detects that the interface `name` went down, after which the kernel restores the socket
    /// itself (`packet_notifier`), or was removed: then packets come only from another one of its
    /// name, if at all.
    ///
    /// # Errors
    /// Nothing new will come.
    pub(super) fn check(
        &mut self,
        socket: &PacketSocket,
        name: &str,
        counters: &RxCounters,
        progress: &Progress,
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
            Some(_) if self.link != Link::Gone => {
                self.link = Link::Uncertain;
                self.downs += 1;
            }
            _ => {}
        }
        if self.link == Link::Up {
            return Ok(());
        }
        counters.system_calls.add(1);
        if !socket.has_lost_interface().unwrap_or(false) {
            return Ok(());
        }
        if self.link == Link::Uncertain {
            // It was that it went away.
            self.downs = self.downs.saturating_sub(1);
        }
        self.link = Link::Gone;
        match self.on_removal {
            OnRemoval::End => Err(removed(name)),
            OnRemoval::Wait { promiscuous } => {
                counters.system_calls.add(1);
                self.rejoin(socket, name, promiscuous, progress)
            }
        }
    }

    /// Binds the socket to the interface of the old name, if there is one again. The ring and its
    /// program stay as they are.
    fn rejoin(
        &mut self,
        socket: &PacketSocket,
        name: &str,
        promiscuous: bool,
        progress: &Progress,
    ) -> Result<()> {
        let Ok((index, hardware_type)) = socket.find_interface(name) else { return Ok(()) };
        if link_type(hardware_type) != Some(self.link_type) {
            let cause = "the interface came back with another type of link header";
            return Err(Error::failed(name, cause));
        }
        match socket.bind(index, ETH_P_ALL_BE) {
            // One that is not up yet is told as an error, and bound to all the same
            // (packet_do_bind).
            Err(error) if error.errno() != Some(Errno::NETDOWN.raw_os_error()) => return Ok(()),
            _ => {}
        }
        if promiscuous && let Err(error) = socket.set_promiscuous(index, true) {
            let what = "not in promiscuous mode since the interface came back";
            progress.note(format!("{name}: {what}: {error}"));
        }
        self.link = Link::Uncertain;
        self.returns += 1;
        Ok(())
    }
}
