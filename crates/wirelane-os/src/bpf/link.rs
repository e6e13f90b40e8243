//! XDP programs on interfaces: attaches them, and finds the attached one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::mode::XdpMode;
use super::program::{self, Program};
use super::uapi::{self, LinkInfo};
use crate::error::{OsError, Result};
use crate::netdev::links;

/// The attachment of an XDP or traffic program to an interface. It ends when the link is dropped,
/// or when the process ends in any way. Linux 5.9.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    ifindex: u32,
}

impl Link {
    /// Attaches `program` to the interface with this index.
    ///
    /// # Errors
    /// `EBUSY` or `EEXIST` when the interface already has a program ([`attached`] describes it);
    /// `EOPNOTSUPP` when the driver has no XDP; `ERANGE`, `ENOSPC`, `EINVAL` and others when the
    /// driver does not support it in the interface's configuration (veth: the peer's MTU too large,
    /// more transmit queues at the peer than receive queues here); `EINVAL` also when there is no
    /// such interface, and before Linux 5.9.
    pub fn attach(ifindex: u32, program: &Program, mode: XdpMode) -> Result<Link> {
        let flags = match mode {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
            XdpMode::Offloaded => 1 << 3,
        };
        Self::create(ifindex, program, uapi::BPF_XDP, flags)
    }

    /// Attaches `program`, of [`ProgramType::Traffic`](super::ProgramType), to the egress of the
    /// interface with this index, where it may read and change packets. Linux 6.6.
    ///
    /// # Errors
    /// `EINVAL` when there is no such interface, and on older kernels.
    pub fn attach_egress(ifindex: u32, program: &Program) -> Result<Link> {
        Self::create(ifindex, program, uapi::BPF_TCX_EGRESS, 0)
    }

    fn create(ifindex: u32, program: &Program, attach_type: u32, flags: u32) -> Result<Link> {
        let mut attr = uapi::LinkCreate {
            prog_fd: program.fd.as_raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type,
            flags,
        };
        // SAFETY: the attribute holds no address.
        match unsafe { uapi::bpf_fd(uapi::BPF_LINK_CREATE, &mut attr) } {
            Ok(fd) => Ok(Link { fd, ifindex }),
            Err(error) => Err(OsError::new("bpf BPF_LINK_CREATE", object(ifindex), error)),
        }
    }

    /// Replaces the attached program atomically: every packet runs either the old or the new one.
    ///
    /// # Errors
    /// `ENOLINK` when the interface is gone, `EINVAL` when the programs have different types;
    /// errors of the driver.
    pub fn update(&self, program: &Program) -> Result<()> {
        let mut attr = uapi::LinkUpdate {
            link_fd: self.fd.as_raw_fd() as u32,
            new_prog_fd: program.fd.as_raw_fd() as u32,
            ..uapi::LinkUpdate::default()
        };
        self.done("bpf BPF_LINK_UPDATE", uapi::BPF_LINK_UPDATE, &mut attr)
    }

    /// Detaches the program now, even if another process holds a copy of the descriptor. The link
    /// is useless after this.
    ///
    /// # Errors
    /// Errors of the kernel, unless the interface is gone.
    pub fn detach(&self) -> Result<()> {
        let mut attr = uapi::LinkDetach { link_fd: self.fd.as_raw_fd() as u32 };
        self.done("bpf BPF_LINK_DETACH", uapi::BPF_LINK_DETACH, &mut attr)
    }

    /// Whether it still holds a program on its interface. False after [`Link::detach`], and when
    /// the interface is gone.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn is_attached(&self) -> Result<bool> {
        let info = link_info(self.fd.as_fd())
            .map_err(|error| OsError::new("bpf BPF_OBJ_GET_INFO_BY_FD", self.object(), error))?;
        Ok(info.ifindex != 0)
    }

    /// Index of its interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn done<T>(&self, call: &'static str, command: i32, attr: &mut T) -> Result<()> {
        // SAFETY: neither of the two attributes that come here holds an address.
        unsafe { uapi::bpf(command, attr) }
            .map(drop)
            .map_err(|error| OsError::new(call, self.object(), error))
    }

    fn object(&self) -> String {
        object(self.ifindex)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Closing is not enough if another thread is just starting a program: until the child
        // executes it, the child has copies of all descriptors. A failure means that the link is
        // already detached.
        let _ = self.detach();
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The XDP program of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its ID.
    pub id: u32,
    /// Its name; `None` if it has none, or without CAP_SYS_ADMIN, which reading it needs.
    pub name: Option<String>,
    /// Its mode.
    pub mode: XdpMode,
    /// ID of its link. `None` if it was attached without a link and stays until it is detached, or
    /// without CAP_SYS_ADMIN.
    pub link: Option<u32>,
}

impl std::fmt::Display for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "program '{name}' (id {})", self.id),
            None => write!(f, "a program without a known name (id {})", self.id),
        }
    }
}

/// The XDP program of the interface with this index in the calling thread's network namespace, if
/// it has one. If it has several, prefers the driver's program to the generic one.
///
/// # Errors
/// `ENODEV`, or another error of the kernel.
pub fn attached(ifindex: u32) -> Result<Option<Attached>> {
    let Some((mode, id)) = links::xdp_programs(ifindex)?.into_iter().next() else {
        return Ok(None);
    };
    let name = by_id(uapi::BPF_PROG_GET_FD_BY_ID, id).ok().and_then(|fd| {
        let name = program::info(fd.as_fd()).ok()?.name;
        let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
        (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    });
    Ok(Some(Attached { id, name, mode, link: find_link(ifindex, id) }))
}

/// Whether the kernel still has the program with this ID. IDs are not reused.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn program_exists(id: u32) -> Result<bool> {
    match by_id(uapi::BPF_PROG_GET_FD_BY_ID, id) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(OsError::new("bpf PROG_GET_FD_BY_ID", format!("program {id}"), error)),
    }
}

/// The link of the program `program` on the interface. IDs of links and programs are not reused in
/// the system, but interfaces of two namespaces may have the same index.
fn find_link(ifindex: u32, program: u32) -> Option<u32> {
    let mut id = 0;
    loop {
        let mut attr = uapi::ById { id, ..uapi::ById::default() };
        // SAFETY: the attribute holds no address.
        unsafe { uapi::bpf(uapi::BPF_LINK_GET_NEXT_ID, &mut attr) }.ok()?;
        id = attr.next_id;
        // The link may have disappeared in the meantime.
        let Ok(fd) = by_id(uapi::BPF_LINK_GET_FD_BY_ID, id) else { continue };
        let Ok(info) = link_info(fd.as_fd()) else { continue };
        let found = info.kind == uapi::BPF_LINK_TYPE_XDP
            && (info.ifindex, info.prog_id) == (ifindex, program);
        if found {
            return Some(id);
        }
    }
}

fn by_id(command: i32, id: u32) -> io::Result<OwnedFd> {
    let mut attr = uapi::ById { id, ..uapi::ById::default() };
    // SAFETY: the attribute holds no address.
    unsafe { uapi::bpf_fd(command, &mut attr) }
}

fn link_info(link: BorrowedFd<'_>) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    let mut attr = uapi::InfoByFd {
        bpf_fd: link.as_raw_fd() as u32,
        info_len: size_of::<LinkInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the kernel writes at most as many bytes as the structure has.
    unsafe { uapi::bpf(uapi::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }?;
    Ok(info)
}

fn object(ifindex: u32) -> String {
    crate::iface::name(ifindex).unwrap_or_else(|_| format!("interface index {ifindex}"))
}
