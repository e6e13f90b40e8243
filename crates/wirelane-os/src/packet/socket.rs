//! An AF_PACKET socket: opening, binding and waiting.

use super::uapi::*;
use crate::error::{OsError, Result};
use crate::iface;
use crate::socket::{self, Plain};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// An AF_PACKET socket of type `SOCK_RAW`; frames begin with the link-layer header.
#[derive(Debug)]
pub struct PacketSocket {
    pub(super) fd: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket in the calling thread's network namespace. Its protocol is 0, so it receives
    /// nothing before [`PacketSocket::bind`]: otherwise packets of every interface would arrive
    /// before the filter is attached.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW.
    pub fn open() -> Result<PacketSocket> {
        rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map(|fd| PacketSocket { fd })
            .map_err(|errno| OsError::new("socket", "AF_PACKET", errno))
    }

    /// Starts to receive `protocol_be` (network byte order, e.g. [`ETH_P_ALL_BE`]; 0 receives
    /// nothing) from the interface, which also becomes the interface of
    /// [`PacketSocket::send_pending`].
    ///
    /// # Errors
    /// `ENODEV` when there is no such interface, `ENETDOWN` when it is down.
    pub fn bind(&self, ifindex: u32, protocol_be: u16) -> Result<()> {
        const CALL: &str = "bind";
        let object = || format!("interface index {ifindex}");
        let address = SockaddrLl {
            family: libc::AF_PACKET as u16,
            protocol: protocol_be,
            ifindex: ifindex_i32(ifindex, CALL)?,
            ..SockaddrLl::default()
        };
        // SAFETY: `address` is a sockaddr_ll without padding, readable for its whole size.
        let status = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of::<SockaddrLl>() as libc::socklen_t,
            )
        };
        if status != 0 {
            return Err(OsError::last(CALL, object()));
        }
        // packet_do_bind() leaves ENETDOWN as the socket's pending error and returns success.
        match self.take_error()? {
            None => Ok(()),
            Some(source) => Err(OsError::new(CALL, object(), source)),
        }
    }

    /// The socket's local address: index, protocol, link type and address of the interface.
    ///
    /// # Errors
    /// The errors of getsockname(2).
    pub fn local_address(&self) -> Result<SockaddrLl> {
        let mut address = SockaddrLl::default();
        let mut len = size_of::<SockaddrLl>() as libc::socklen_t;
        // SAFETY: `address` is writable for `len` bytes, and any bytes are valid in it.
        let status = unsafe {
            libc::getsockname(
                self.fd.as_raw_fd(),
                std::ptr::from_mut(&mut address).cast(),
                &mut len,
            )
        };
        if status == 0 { Ok(address) } else { Err(OsError::last("getsockname", "AF_PACKET")) }
    }

    /// Whether its bound interface was removed (`packet_notifier`). An interface that was moved to
    /// another namespace does not count.
    ///
    /// # Errors
    /// The errors of getsockname(2).
    pub fn has_lost_interface(&self) -> Result<bool> {
        Ok(self.local_address()?.ifindex < 0)
    }

    /// Index and link type (`ARPHRD_*`) of the interface `name` in the namespace of this socket.
    ///
    /// # Errors
    /// `ENODEV` when no interface has this name.
    pub fn find_interface(&self, name: &str) -> Result<(u32, u16)> {
        iface::find_by(self.as_fd(), name)
    }

    /// The link type of an interface (`ARPHRD_*`, e.g. 1 for Ethernet).
    ///
    /// # Errors
    /// `ENXIO` or `ENODEV` for an unknown interface.
    pub fn link_type(&self, ifindex: u32) -> Result<u16> {
        iface::link_type(&iface::name(ifindex)?)
    }

    /// The current MTU of the interface `name`, in the namespace of the socket.
    ///
    /// # Errors
    /// `ENODEV` when no interface has this name.
    pub fn mtu(&self, name: &str) -> Result<u32> {
        iface::mtu_by(self.as_fd(), name)
    }

    /// The current flags of the interface `name`, in the namespace of the socket.
    ///
    /// # Errors
    /// `ENODEV` when no interface has this name.
    pub fn flags(&self, name: &str) -> Result<iface::Flags> {
        iface::flags_by(self.as_fd(), name)
    }

    /// Waits until a block or packet is available, at most `timeout` (`None` waits for ever). False
    /// if none is, also after a signal.
    ///
    /// # Errors
    /// The socket's pending error: `ENETDOWN` when the interface is down or gone.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> Result<bool> {
        self.wait(PollFlags::IN, timeout)
    }

    /// Waits until a TX frame is free; otherwise as [`PacketSocket::wait_readable`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_writable(&self, timeout: Option<Duration>) -> Result<bool> {
        self.wait(PollFlags::OUT, timeout)
    }

    /// The socket's pending error, which reading clears.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn take_error(&self) -> Result<Option<io::Error>> {
        let level = (libc::SOL_SOCKET, libc::SO_ERROR);
        let errno: i32 = socket::get(self.as_fd(), level, "getsockopt SO_ERROR")?;
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    pub(super) fn wait(&self, what: PollFlags, timeout: Option<Duration>) -> Result<bool> {
        let timeout = timeout.map(|timeout| {
            Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        let mut set = [PollFd::new(&self.fd, what)];
        match rustix::event::poll(&mut set, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("poll", "AF_PACKET", errno)),
        }
        let [entry] = &set;
        let ready = entry.revents();
        if ready.contains(PollFlags::ERR)
            && let Some(source) = self.take_error()?
        {
            return Err(OsError::new("poll", "AF_PACKET", source));
        }
        Ok(ready.intersects(what))
    }

    pub(super) fn set<T: Plain>(&self, name: i32, value: &T, call: &'static str) -> Result<()> {
        socket::set(self.as_fd(), (libc::SOL_PACKET, name), value, call, || self.object())
    }

    pub(super) fn set_socket(&self, name: i32, value: i32, call: &'static str) -> Result<()> {
        socket::set(self.as_fd(), (libc::SOL_SOCKET, name), &value, call, || self.object())
    }

    pub(super) fn error(&self, call: &'static str, errno: i32) -> OsError {
        OsError::from_errno(call, self.object(), errno)
    }

    /// The name of the bound interface, if any.
    pub(super) fn object(&self) -> String {
        self.local_address()
            .ok()
            .and_then(|address| u32::try_from(address.ifindex).ok())
            .filter(|index| *index != 0)
            .and_then(|index| iface::name(index).ok())
            .unwrap_or_else(|| "AF_PACKET".to_owned())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn ifindex_i32(ifindex: u32, call: &'static str) -> Result<i32> {
    i32::try_from(ifindex)
        .map_err(|_| OsError::from_errno(call, format!("interface index {ifindex}"), libc::ENODEV))
}
