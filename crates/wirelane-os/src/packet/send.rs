//! Sends through a ring and without it; receives without a ring.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;

use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};

use super::socket::PacketSocket;
use super::uapi::VirtioNetHdr;
use crate::error::{OsError, Result};

impl PacketSocket {
    /// Passes every TX frame with [`TP_STATUS_SEND_REQUEST`](super::TP_STATUS_SEND_REQUEST) to the
    /// kernel, without waiting. Returns the number of accepted bytes, 0 if there was nothing to
    /// send or no room.
    ///
    /// # Errors
    /// The bare errno, as this is on the hot path: `ENOBUFS` when the device's queue is full (try
    /// again later), `ENETDOWN`, `EMSGSIZE` for a frame over the MTU, `EINVAL` for a malformed one.
    pub fn send_pending(&self) -> io::Result<usize> {
        // SAFETY: an empty message without address: the kernel takes frames from the ring.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                std::ptr::null(),
                0,
            )
        };
        match usize::try_from(sent) {
            Ok(bytes) => Ok(bytes),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                error => Err(error),
            },
        }
    }

    /// Sends one frame by copy, without a ring, to the bound interface.
    ///
    /// # Errors
    /// As [`PacketSocket::send_pending`], and `ENXIO` when not bound.
    pub fn send_frame(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.fd, frame, SendFlags::NOSIGNAL)?)
    }

    /// As [`PacketSocket::send_frame`], without waiting for room in the send buffer.
    ///
    /// # Errors
    /// The same, and `EAGAIN` when there is no room.
    pub fn try_send_frame(&self, frame: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.fd, frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    /// Receives the first packet that is queued on the socket, without waiting: into `frame`, and
    /// with [`PacketSocket::set_vnet_hdr`] its header into `header`. Returns its length including
    /// the header, even if it does not fit.
    ///
    /// `EAGAIN` when no packet is queued, or the socket's pending error, as for
    /// [`PacketSocket::wait_readable`].
    /// [`PacketSocket::wait_readable`].
    pub fn try_receive(&self, header: &mut [u8], frame: &mut [u8]) -> io::Result<usize> {
        let mut parts = [IoSliceMut::new(header), IoSliceMut::new(frame)];
        let mut control = RecvAncillaryBuffer::default();
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        Ok(rustix::net::recvmsg(&self.fd, &mut parts, &mut control, flags)?.bytes)
    }

    /// Bytes of sent frames that are still in use, including the kernel's overhead: in a device
    /// queue, or at a receiver on the same kernel. 0 means that all were received or dropped.
    ///
    /// # Errors
    /// The errors of ioctl(2).
    pub fn outstanding(&self) -> Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int (`packet_ioctl`).
        let status = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if status != 0 {
            return Err(OsError::last("ioctl SIOCOUTQ", "AF_PACKET"));
        }
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// Sends one frame by copy and without waiting, on a socket with
    /// [`PacketSocket::set_vnet_hdr`]: `header` describes its pending offloads, which the device or
    /// the kernel performs. A frame to be segmented may have up to 64 KB.
    ///
    /// # Errors
    /// As [`PacketSocket::send_pending`]; `EAGAIN` when the send buffer is full, `EINVAL` for a
    /// header that does not match the frame.
    pub fn send_with_header(&self, header: &VirtioNetHdr, frame: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(frame)];
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.fd, &parts, &mut control, flags)?;
        Ok(())
    }
}
