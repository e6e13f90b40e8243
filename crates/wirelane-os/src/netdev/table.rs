//! The interfaces of a network namespace, with their arrival and removal.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::links::{Link, NETLINK_ROUTE, links_by, parse_link};
use crate::error::{OsError, Result};
use crate::netlink::{Netlink, messages};

/// Follows every interface in the network namespace of the thread that made it. Any thread may read
/// it. It also remembers removed interfaces.
#[derive(Debug)]
pub struct LinkTable {
    /// Receives a message when an interface is added, changed or removed. Messages are queued until
    /// the next look-up.
    events: OwnedFd,
    requests: Netlink,
    known: HashMap<u32, Link>,
    /// The last removed interfaces.
    gone: VecDeque<Link>,
    buffer: Vec<u8>,
}

impl LinkTable {
    /// Lists the existing interfaces, and follows them from now on.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new() -> Result<Self> {
        const CALL: &str = "socket AF_NETLINK";
        let failed = |errno: Errno| OsError::new(CALL, "interfaces", errno);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let events = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, NETLINK_ROUTE)
            .map_err(failed)?;
        bind(&events, &SocketAddrNetlink::new(0, RTMGRP_LINK)).map_err(failed)?;
        let mut table = Self {
            events,
            requests: Netlink::open(NETLINK_ROUTE)?,
            known: HashMap::new(),
            gone: VecDeque::new(),
            buffer: vec![0; DATAGRAM],
        };
        // In this order: a change during the listing is reported twice instead of being missed.
        table.list()?;
        Ok(table)
    }

    /// The interfaces that exist now.
    pub fn links(&mut self) -> impl Iterator<Item = &Link> {
        self.update();
        self.known.values()
    }

    /// The interface with this index, which may be gone.
    pub fn find(&mut self, index: u32) -> Option<&Link> {
        self.update();
        let gone = self.gone.iter().rev().find(|link| link.index == index);
        self.known.get(&index).or(gone)
    }

    /// Processes the received messages.
    fn update(&mut self) {
        loop {
            match recv(&self.events, self.buffer.as_mut_slice(), RecvFlags::TRUNC) {
                Ok((_, length)) => {
                    let buffer = std::mem::take(&mut self.buffer);
                    let datagram = buffer.get(..length).unwrap_or_default();
                    messages(datagram).for_each(|(kind, payload)| self.take(kind, payload));
                    self.buffer = buffer;
                }
                Err(Errno::INTR) => {}
                // The socket overflowed. If the listing fails, the table does not change.
                Err(Errno::NOBUFS) => drop(self.list()),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, kind: u16, payload: &[u8]) {
        // Messages of a bridge report that a port joined or left it.
        if payload.first() != Some(&(libc::AF_UNSPEC as u8)) {
            return;
        }
        let Some(link) = parse_link(payload) else { return };
        match kind {
            libc::RTM_NEWLINK => drop(self.known.insert(link.index, link)),
            libc::RTM_DELLINK => {
                let link = self.known.remove(&link.index).unwrap_or(link);
                self.keep_gone(link);
            }
            _ => {}
        }
    }

    fn keep_gone(&mut self, link: Link) {
        if self.gone.len() == MOST_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(link);
    }

    fn list(&mut self) -> Result<()> {
        let all = links_by(&mut self.requests)?;
        let now: HashMap<u32, Link> = all.into_iter().map(|link| (link.index, link)).collect();
        let mut before = std::mem::replace(&mut self.known, now);
        before.retain(|index, _| !self.known.contains_key(index));
        before.into_values().for_each(|link| self.keep_gone(link));
        Ok(())
    }
}

/// `RTMGRP_LINK` of `include/uapi/linux/rtnetlink.h`.
const RTMGRP_LINK: u32 = 1;
/// Longer than any message about a link.
const DATAGRAM: usize = 64 << 10;
/// The number of removed interfaces to remember.
const MOST_GONE: usize = 1024;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{iface, link, netns, testing};

    #[test]
    fn privileged_what_comes_and_goes_is_known() {
        testing::in_new_namespace(|| {
            let here = netns::current().unwrap();
            let mut table = LinkTable::new().unwrap();
            let end = |name, mac| link::VethEnd { name, namespace: here.as_fd(), mac };
            let make = || {
                let ends = [end("wl-a", [2, 0, 0, 0, 0, 1]), end("wl-b", [2, 0, 0, 0, 0, 2])];
                link::create_veth(ends, 1, 1500).unwrap();
                iface::index("wl-a").unwrap()
            };
            let first = make();
            link::delete("wl-a").unwrap();
            // The table was not updated during these changes; the look-up is in another namespace.
            let second = make();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    netns::unshare_net().unwrap();
                    let veth = |link: &Link| (link.name.clone(), link.kind.clone());
                    let expected = Some(("wl-a".to_owned(), Some("veth".to_owned())));
                    assert_eq!(table.find(first).map(veth), expected);
                    assert_eq!(table.find(second).map(veth), expected);
                    assert_eq!(table.find(second).unwrap().hardware_type, 1);
                    assert_eq!(table.find(u32::MAX), None);
                    table.list().unwrap();
                    assert_eq!(table.links().count(), 3);
                });
            });
            // More messages than the socket can hold.
            for i in 0..300 {
                link::set_alias("wl-a", &format!("{i:0200}")).unwrap();
            }
            link::delete("wl-a").unwrap();
            assert_eq!(table.links().count(), 1);
            assert_eq!(table.find(second).unwrap().name, "wl-a");
        });
    }
}
