//! Loads programs.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use wirelane_filter::ebpf::Insn;

use super::limit::with_memory;
use super::uapi::{self, ProgramInfo, ProgramLoad};
use crate::error::{OsError, Result};

/// The type of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramType {
    /// On a socket (`SO_ATTACH_BPF`): the result is the number of bytes to keep. Linux 3.19.
    SocketFilter = 1,
    /// On the egress path of an interface ([`Link::attach_egress`](super::Link::attach_egress)).
    /// Linux 4.1.
    Traffic = 3,
    /// On the receive path of an interface: the result is an [`XdpAction`]. Linux 4.8.
    Xdp = 6,
}

/// The result of an XDP program: the action on the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum XdpAction {
    /// Dropped, and reported to tracers as an error.
    Aborted = 0,
    /// Dropped.
    Drop = 1,
    /// Passed to the network stack.
    Pass = 2,
    /// Sent out of the same interface.
    Tx = 3,
    /// Sent to the target of a redirect helper.
    Redirect = 4,
}

/// A program to load.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Its type.
    pub kind: ProgramType,
    /// Its name in listings: at most 15 letters, digits, `_` and `.`.
    pub name: &'a str,
    /// Its instructions.
    pub insns: &'a [Insn],
    /// Its licence. Some helpers require a licence that is compatible with the GPL, such as `Dual
    /// MIT/GPL`.
    pub license: &'a CStr,
    /// XDP: it supports packets of several buffers, of which it sees the first. Linux 5.18.
    pub frags: bool,
    /// XDP: the program is bound to the interface with this index in the calling thread's network
    /// namespace, in driver mode, and may read the interface's packet metadata. Linux 6.3.
    pub interface: Option<u32>,
}

impl<'a> Load<'a> {
    /// A program for packets of one buffer, without helpers that are reserved for the GPL.
    pub fn new(kind: ProgramType, name: &'a str, insns: &'a [Insn]) -> Load<'a> {
        Load { kind, name, insns, license: c"MIT OR Apache-2.0", frags: false, interface: None }
    }
}

/// An error of loading a program.
#[derive(Debug)]
pub struct LoadError {
    /// The kernel's error: `EPERM` without CAP_BPF and, for XDP, CAP_NET_ADMIN; `EACCES` and
    /// `EINVAL`, mostly from the verifier; `E2BIG` for too many instructions.
    pub os: OsError,
    /// The verifier's log, empty if the verifier did not run.
    pub log: String,
}

impl LoadError {
    /// The line of the verifier's log with the error, which is the last one before its statistics.
    pub fn reason(&self) -> Option<&str> {
        let figures = |line: &&str| {
            line.is_empty()
                || line.starts_with("processed ")
                || line.starts_with("verification time")
                || line.starts_with("stack depth")
        };
        self.log.lines().rev().find(|line| !figures(line))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.os)?;
        self.reason().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.os)
    }
}

impl From<LoadError> for OsError {
    /// Adds the verifier's log to the object of the error.
    fn from(error: LoadError) -> OsError {
        let LoadError { ref os, .. } = error;
        let Some(reason) = error.reason() else { return error.os };
        OsError { object: format!("{}: {reason}", os.object), ..error.os }
    }
}

/// A program in the kernel. The kernel frees it with its last descriptor and attachment.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
    pub(super) name: String,
}

impl Program {
    /// Loads a program. Requests the verifier's log only after a refusal.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(load: &Load<'_>) -> std::result::Result<Program, LoadError> {
        let failed = |error: io::Error| {
            OsError::new("bpf BPF_PROG_LOAD", format!("program {}", load.name), error)
        };
        let program = |fd| Program { fd, name: load.name.to_owned() };
        let refused = match with_memory(|| attempt(load, &mut [])) {
            Ok(fd) => return Ok(program(fd)),
            Err(refused) => refused,
        };
        if refused.raw_os_error() == Some(libc::EPERM) {
            return Err(LoadError { os: failed(refused), log: String::new() });
        }
        // If the log does not fit, the call fails with ENOSPC, whatever the verdict
        // (bpf_vlog_finalize).
        let mut size = 64 << 10;
        loop {
            let mut log = vec![0; size];
            match attempt(load, &mut log) {
                Ok(fd) => return Ok(program(fd)),
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && size < MOST_LOG => {
                    size *= 4;
                }
                Err(_) => {
                    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
                    let log = String::from_utf8_lossy(text).into_owned();
                    return Err(LoadError { os: failed(refused), log });
                }
            }
        }
    }

    /// Its ID, unique in the system while it is loaded.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn id(&self) -> Result<u32> {
        Ok(info(self.fd.as_fd())?.id)
    }

    /// The name that was passed to [`Program::load`].
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The first fields of the kernel's information about a program.
pub(super) fn info(program: BorrowedFd<'_>) -> Result<ProgramInfo> {
    let mut info = ProgramInfo::default();
    let mut attr = uapi::InfoByFd {
        bpf_fd: program.as_raw_fd() as u32,
        info_len: size_of::<ProgramInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the kernel writes at most as many bytes as the structure has.
    unsafe { uapi::bpf(uapi::BPF_OBJ_GET_INFO_BY_FD, &mut attr) }
        .map_err(|error| OsError::new("bpf BPF_OBJ_GET_INFO_BY_FD", "program", error))?;
    Ok(info)
}

/// Enough for the log of the longest programs; the kernel's limit is higher.
const MOST_LOG: usize = 16 << 20;

fn attempt(load: &Load<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let too_long = |_| io::Error::from_raw_os_error(libc::E2BIG);
    let mut attr = ProgramLoad {
        prog_type: load.kind as u32,
        insn_cnt: u32::try_from(load.insns.len()).map_err(too_long)?,
        insns: load.insns.as_ptr() as u64,
        license: load.license.as_ptr() as u64,
        prog_flags: if load.frags { uapi::BPF_F_XDP_HAS_FRAGS } else { 0 }
            | if load.interface.is_some() { uapi::BPF_F_XDP_DEV_BOUND_ONLY } else { 0 },
        prog_ifindex: load.interface.unwrap_or_default(),
        prog_name: uapi::object_name(load.name),
        expected_attach_type: match load.kind {
            ProgramType::SocketFilter | ProgramType::Traffic => 0,
            ProgramType::Xdp => uapi::BPF_XDP,
        },
        ..ProgramLoad::default()
    };
    if !log.is_empty() {
        (attr.log_level, attr.log_size) = (1, log.len() as u32);
        attr.log_buf = log.as_mut_ptr() as u64;
    }
    // SAFETY: instructions, licence and log live through the call, and have the stated lengths.
    unsafe { uapi::bpf_fd(uapi::BPF_PROG_LOAD, &mut attr) }
}
