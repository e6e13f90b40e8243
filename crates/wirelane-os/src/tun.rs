//! Multi-queue TAP and TUN devices: one descriptor per queue.
//!
//! A packet written to descriptor i arrives on the device's RX queue i (`tun_get_user` records it).
//! A packet that the device sends on its TX queue i is read from descriptor i. The device chooses
//! the TX queue of a flow by the queue that last received the flow (`tun_automq_select_queue`).
//! Source: `drivers/net/tun.c` of Linux.

use crate::error::{OsError, Result};
use crate::iface;
use crate::packet::{SockFilter, SockFprog, VirtioNetHdr};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The most queues of a device (`MAX_TAP_QUEUES`).
pub const MAX_QUEUES: usize = 256;

/// Whether packets have an Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// TAP: Ethernet frames.
    #[default]
    Ethernet,
    /// TUN: IP packets.
    Ip,
}

/// Options of [`Tap::open`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// TAP or TUN.
    pub layer: Layer,
    /// Whether each packet has a [`crate::packet::VirtioNetHdr`], in both directions.
    pub vnet_hdr: bool,
    /// Keep the device when its descriptors are closed.
    pub persist: bool,
    /// Blocking reads and writes; otherwise they return `EAGAIN`.
    pub blocking: bool,
}

/// Offloads that the reader of a device supports (`TUN_F_*`), see [`Tap::set_offload`]. The default
/// is none: every packet is whole, at most as long as the MTU, with its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Packets with a partial checksum; all other offloads need it.
    pub checksum: bool,
    /// TCP segmentation over IPv4.
    pub tso4: bool,
    /// TCP segmentation over IPv6.
    pub tso6: bool,
    /// Segmentation of TCP with ECN.
    pub tso_ecn: bool,
    /// UDP segmentation over IPv4; Linux 6.2.
    pub uso4: bool,
    /// UDP segmentation over IPv6; Linux 6.2.
    pub uso6: bool,
}

/// An open device. The kernel removes it when its descriptors are closed, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    name: String,
    queues: Vec<OwnedFd>,
}

impl Tap {
    /// Opens `queues` queues of the device `name` in the calling thread's network namespace, and
    /// creates the device if it does not exist. With `%d` in the name, the kernel chooses a number.
    /// A new device is multi-queue only if it has more than one queue. It is initially down: see
    /// [`iface::up`].
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EBUSY` when it is in use as a single-queue device or by a
    /// program with another [`Options::vnet_hdr`], `EINVAL` for an invalid name or count or when an
    /// existing device has another kind, `ENOENT` when the kernel lacks the driver.
    pub fn open(name: &str, queues: usize, options: Options) -> Result<Tap> {
        if !(1..=MAX_QUEUES).contains(&queues) {
            let object = format!("{name}, {queues} queues");
            return Err(OsError::from_errno("ioctl TUNSETIFF", object, libc::EINVAL));
        }
        let mut tap = Tap { name: name.to_owned(), queues: Vec::with_capacity(queues) };
        for _ in 0..queues {
            let fd = match attach(&mut tap.name, queues > 1, options) {
                // One queue of a device that was made with several (`tun_set_iff` compares the
                // flags).
                Err(error) if queues == 1 && error.errno() == Some(libc::EINVAL) => {
                    attach(&mut tap.name, true, options).map_err(|_| error)?
                }
                attached => attached?,
            };
            tap.queues.push(fd);
        }
        tap.check_header(options)?;
        if options.persist {
            tap.set_persist(true)?;
        }
        Ok(tap)
    }

    /// If another process has queues of the device, the device keeps its flags (`tun_set_iff`
    /// returns before it sets them). Packets could then have an unexpected header, or lack one.
    fn check_header(&self, options: Options) -> Result<()> {
        const FLAGS: &str = "ioctl TUNGETIFF";
        let Some(fd) = self.queue(0) else { return Ok(()) };
        let mut request = iface::request(&self.name, FLAGS)?;
        // SAFETY: TUNGETIFF fills an `ifreq`.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETIFF, &mut request) } != 0 {
            return Err(OsError::last(FLAGS, &*self.name));
        }
        // SAFETY: TUNGETIFF filled this member of the union.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        if (flags & libc::IFF_VNET_HDR != 0) != options.vnet_hdr {
            return Err(OsError::from_errno(FLAGS, &*self.name, libc::EBUSY));
        }
        if !options.vnet_hdr {
            return Ok(());
        }
        const SIZE: &str = "ioctl TUNSETVNETHDRSZ";
        // An earlier user of the device may have set a longer one.
        let size = size_of::<VirtioNetHdr>() as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads an integer.
        let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &size) };
        if status != 0 { Err(OsError::last(SIZE, &*self.name)) } else { Ok(()) }
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of open queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The descriptor of queue `queue`.
    pub fn queue(&self, queue: usize) -> Option<BorrowedFd<'_>> {
        self.queues.get(queue).map(AsFd::as_fd)
    }

    /// The descriptors, one per queue in order, e.g. for several threads.
    pub fn into_queues(self) -> Vec<OwnedFd> {
        self.queues
    }

    /// Writes a packet to the device's RX queue `queue`; see [`write()`].
    ///
    /// # Errors
    /// As there, and `ENXIO` when there is no such queue.
    pub fn write(&self, queue: usize, packet: &[u8]) -> io::Result<usize> {
        write(self.queue(queue).ok_or_else(no_such_queue)?, packet)
    }

    /// Reads a packet that the device sent on its TX queue `queue`; see [`read()`].
    ///
    /// # Errors
    /// As there, and `ENXIO` when there is no such queue.
    pub fn read(&self, queue: usize, buffer: &mut [u8]) -> io::Result<usize> {
        read(self.queue(queue).ok_or_else(no_such_queue)?, buffer)
    }

    /// Whether the kernel supports UDP segmentation on TAP devices (`TUN_F_USO4` and
    /// `VIRTIO_NET_HDR_GSO_UDP_L4`, Linux 6.2). Turns all offloads of the device off.
    ///
    /// # Errors
    /// As [`Tap::set_offload`].
    pub fn leaves_datagrams(&self) -> Result<bool> {
        let datagrams = Offload { checksum: true, uso4: true, uso6: true, ..Offload::default() };
        match self.set_offload(datagrams) {
            Err(error) if error.errno() == Some(Errno::INVAL.raw_os_error()) => Ok(false),
            Err(error) => Err(error),
            Ok(()) => self.set_offload(Offload::default()).map(|()| true),
        }
    }

    /// Declares the offloads that the reader supports. Needs `vnet_hdr`, which describes the
    /// packets to the reader.
    ///
    /// # Errors
    /// `EINVAL` for offloads that this kernel does not know.
    pub fn set_offload(&self, offload: Offload) -> Result<()> {
        let bits = [
            (offload.checksum, libc::TUN_F_CSUM),
            (offload.tso4, libc::TUN_F_TSO4),
            (offload.tso6, libc::TUN_F_TSO6),
            (offload.tso_ecn, libc::TUN_F_TSO_ECN),
            (offload.uso4, libc::TUN_F_USO4),
            (offload.uso6, libc::TUN_F_USO6),
        ];
        let mask = bits.iter().filter(|(on, _)| *on).fold(0, |mask, (_, bit)| mask | bit);
        self.control(libc::TUNSETOFFLOAD, mask.into(), "ioctl TUNSETOFFLOAD")
    }

    /// Sets a classic BPF filter: only packets for which it returns more than 0 reach a queue,
    /// truncated to that length. Replaces the old one between two packets.
    ///
    /// # Errors
    /// `EINVAL` for an invalid program, `EBADFD` when the device is gone.
    pub fn set_filter(&self, program: &[SockFilter]) -> Result<()> {
        const CALL: &str = "ioctl TUNATTACHFILTER";
        let Some(fd) = self.queue(0) else {
            return Err(OsError::from_errno(CALL, &*self.name, libc::ENXIO));
        };
        let Ok(len) = u16::try_from(program.len()) else {
            return Err(OsError::from_errno(CALL, &*self.name, libc::EINVAL));
        };
        let raw = SockFprog::new(len, program.as_ptr());
        // SAFETY: the kernel reads `len` instructions at the pointer, which is a slice of as many.
        let status = unsafe { libc::ioctl(fd.as_raw_fd(), TUNATTACHFILTER, &raw) };
        if status < 0 { Err(OsError::last(CALL, &*self.name)) } else { Ok(()) }
    }

    /// Whether the device stays when its descriptors are closed.
    ///
    /// # Errors
    /// The errors of ioctl(2).
    pub fn set_persist(&self, on: bool) -> Result<()> {
        self.control(libc::TUNSETPERSIST, on.into(), "ioctl TUNSETPERSIST")
    }

    /// A device request with an argument by value.
    fn control(
        &self,
        command: libc::Ioctl,
        argument: libc::c_ulong,
        call: &'static str,
    ) -> Result<()> {
        let Some(fd) = self.queue(0) else {
            return Err(OsError::from_errno(call, &*self.name, libc::ENXIO));
        };
        // SAFETY: these requests take an integer; no memory is passed.
        let status = unsafe { libc::ioctl(fd.as_raw_fd(), command, argument) };
        if status < 0 { Err(OsError::last(call, &*self.name)) } else { Ok(()) }
    }
}

/// Writes one packet, which the device receives, completely or not at all.
///
/// # Errors
/// The bare errno: `EIO` when the device is down, `EINVAL` for a packet shorter than its link-layer
/// header, `EAGAIN`.
pub fn write(queue: impl AsFd, packet: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(queue, packet)?)
}

/// Reads one packet that the device sent; bytes beyond the buffer are lost.
///
/// # Errors
/// The bare errno: `EAGAIN` when no packet is queued, `EBADFD` when the device is gone.
pub fn read(queue: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(queue, buffer)?)
}

/// Writes one packet and its `virtio_net_hdr` to a device with [`Options::vnet_hdr`], completely or
/// not at all; the device receives it.
///
/// # Errors
/// As [`write()`].
pub fn write_with_header(queue: impl AsFd, header: &VirtioNetHdr, packet: &[u8]) -> io::Result<()> {
    let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(packet)];
    rustix::io::writev(queue, &parts)?;
    Ok(())
}

/// Reads one packet and its `virtio_net_hdr` from a device with [`Options::vnet_hdr`]. Returns the
/// length of the packet; bytes beyond the buffer are lost.
///
/// # Errors
/// As [`read()`].
pub fn read_with_header(
    queue: impl AsFd,
    header: &mut VirtioNetHdr,
    packet: &mut [u8],
) -> io::Result<usize> {
    let mut parts = [IoSliceMut::new(header.as_bytes_mut()), IoSliceMut::new(packet)];
    let total = rustix::io::readv(queue, &mut parts)?;
    Ok(total.saturating_sub(size_of::<VirtioNetHdr>()))
}

/// `TUNATTACHFILTER`, `_IOW('T', 213, struct sock_fprog)`: absent from the libc crate.
const TUNATTACHFILTER: libc::Ioctl =
    (1 << 30 | (size_of::<SockFprog>() as libc::Ioctl) << 16 | (b'T' as libc::Ioctl) << 8 | 213)
        as _;

fn attach(name: &mut String, multi_queue: bool, options: Options) -> Result<OwnedFd> {
    const CALL: &str = "ioctl TUNSETIFF";
    let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
    if !options.blocking {
        flags |= OFlags::NONBLOCK;
    }
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|errno| OsError::new("open", "/dev/net/tun", errno))?;
    let mut bits = libc::IFF_NO_PI
        | match options.layer {
            Layer::Ethernet => libc::IFF_TAP,
            Layer::Ip => libc::IFF_TUN,
        };
    if multi_queue {
        bits |= libc::IFF_MULTI_QUEUE;
    }
    if options.vnet_hdr {
        bits |= libc::IFF_VNET_HDR;
    }
    let mut request = iface::request(name, CALL)?;
    // The kernel reads the 16 bits; IFF_NO_PI and similar flags do not fit into a signed short,
    // hence the truncation.
    request.ifr_ifru.ifru_flags = bits as libc::c_short;
    // SAFETY: TUNSETIFF takes an `ifreq` and writes nothing beyond it.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &mut request) } != 0 {
        return Err(OsError::last(CALL, &**name));
    }
    let chosen = iface::bytes(request.ifr_name);
    if let Ok(chosen) = CStr::from_bytes_until_nul(&chosen) {
        *name = chosen.to_string_lossy().into_owned();
    }
    Ok(fd)
}

fn no_such_queue() -> io::Error {
    io::Error::from_raw_os_error(libc::ENXIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn impossible_count() {
        for queues in [0, MAX_QUEUES + 1, usize::MAX] {
            let error = Tap::open("wl-x", queues, Options::default()).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL));
        }
    }

    /// Otherwise headers would be read as packets, and packets as headers.
    #[test]
    fn privileged_a_device_in_use_with_another_header_is_refused() {
        testing::in_new_namespace(|| {
            let (with, without) =
                (Options { vnet_hdr: true, ..Options::default() }, Options::default());
            for (first, second) in [(with, without), (without, with)] {
                let tap = Tap::open("wl-x", 2, first).unwrap();
                let error = Tap::open("wl-x", 2, second).unwrap_err();
                assert_eq!(error.errno(), Some(libc::EBUSY), "{error}");
                drop(tap);
                Tap::open("wl-x", 2, second).unwrap();
            }
        });
    }

    #[test]
    fn privileged_every_queue_writes_and_the_device_goes_with_it() {
        testing::in_new_namespace(|| {
            let tap = Tap::open("wl%d", 4, Options::default()).unwrap();
            assert_eq!((tap.name(), tap.queues()), ("wl0", 4));
            let frame = [0xff; 60];
            assert_eq!(tap.write(0, &frame).unwrap_err().raw_os_error(), Some(libc::EIO));
            iface::up("wl0").unwrap();
            for queue in 0..4 {
                assert_eq!(tap.write(queue, &frame).unwrap(), 60);
            }
            assert_eq!(tap.write(4, &frame).unwrap_err().raw_os_error(), Some(libc::ENXIO));
            let fds = tap.into_queues();
            assert!(iface::exists("wl0").unwrap());
            drop(fds);
            assert!(testing::eventually(|| !iface::exists("wl0").unwrap()));
        });
    }

    #[test]
    fn privileged_offload_persist_and_vnet_hdr() {
        testing::in_new_namespace(|| {
            let options = Options { vnet_hdr: true, persist: true, ..Options::default() };
            let tap = Tap::open("wl-p", 2, options).unwrap();
            let tso = Offload { checksum: true, tso4: true, tso6: true, ..Offload::default() };
            tap.set_offload(tso).unwrap();
            tap.set_offload(Offload::default()).unwrap();
            iface::up("wl-p").unwrap();
            // Shorter than virtio_net_hdr and Ethernet together.
            assert_eq!(tap.write(1, &[0; 20]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
            assert_eq!(tap.write(1, &[0; 70]).unwrap(), 70);
            drop(tap);
            assert!(iface::exists("wl-p").unwrap());
            drop(Tap::open("wl-p", 1, options).expect("one of several"));
            let tap = Tap::open("wl-p", 2, options).unwrap();
            tap.set_persist(false).unwrap();
            drop(tap);
            assert!(testing::eventually(|| !iface::exists("wl-p").unwrap()));
        });
    }

    #[test]
    fn privileged_headers_and_filters() {
        testing::in_new_namespace(|| {
            let options = Options { vnet_hdr: true, ..Options::default() };
            let tap = Tap::open("wl-f", 1, options).unwrap();
            let fd = || tap.queue(0).unwrap();
            let ret = |k| [SockFilter { code: 0x06, jt: 0, jf: 0, k }];
            tap.set_filter(&ret(u32::MAX)).unwrap();
            iface::up("wl-f").unwrap();
            // A host whose interface becomes up sends packets (router solicitation, multicast
            // reports).
            let (mut header, mut packet) = (VirtioNetHdr::default(), [0; 2048]);
            let mut read = || read_with_header(fd(), &mut header, &mut packet).ok();
            let mut found = None;
            assert!(testing::eventually(|| {
                found = found.or_else(&mut read);
                found.is_some()
            }));
            assert!(found.unwrap() >= 42, "{found:?}");
            tap.set_filter(&ret(0)).unwrap();
            // Packets that passed the earlier filter are in its queue when the interface is down.
            iface::down("wl-f").unwrap();
            while read().is_some() {}
            iface::up("wl-f").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert_eq!(read(), None);
            assert_eq!(tap.set_filter(&[]).unwrap_err().errno(), Some(libc::EINVAL));
            write_with_header(fd(), &VirtioNetHdr::default(), &[0xff; 60]).unwrap();
            assert!(write_with_header(fd(), &VirtioNetHdr::default(), &[0xff; 5]).is_err());
        });
    }

    #[test]
    fn privileged_a_tun_carries_ip_packets() {
        testing::in_new_namespace(|| {
            let options = Options { layer: Layer::Ip, ..Options::default() };
            let tun = Tap::open("wl-tun", 1, options).unwrap();
            iface::up("wl-tun").unwrap();
            assert_eq!(iface::link_type("wl-tun").unwrap(), libc::ARPHRD_NONE);
            let error = Tap::open("wl-tun", 1, options).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EBUSY), "{error}");
            drop(tun);
        });
    }
}
