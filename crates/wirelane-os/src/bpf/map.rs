//! Maps with numbered entries, shared by a program and user space.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::limit::with_memory;
use super::uapi::{self, MapCreate, MapElement};
use crate::error::{OsError, Result};

/// The type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// An array of values, initially zero.
    Array = 2,
    /// An array per possible CPU; each CPU sees its own values. Linux 4.6.
    PercpuArray = 6,
    /// Interfaces to redirect to, by index. Linux 4.14.
    Dev = 14,
    /// AF_XDP sockets. Linux 4.18. User space can add and remove sockets, and cannot look them up.
    Xsk = 17,
}

/// A map whose keys are the numbers from 0.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    name: String,
    kind: MapKind,
    /// Bytes that the kernel reads or writes for one entry.
    entry_bytes: usize,
}

impl Map {
    /// Creates a map of `entries` values of `value_size` bytes each; sockets take 4 bytes.
    ///
    /// # Errors
    /// `EPERM` without CAP_BPF (sockets: and CAP_NET_ADMIN), `EINVAL` for an unsupported type or
    /// size, `ENOMEM`.
    pub fn create(kind: MapKind, name: &str, value_size: u32, entries: u32) -> Result<Map> {
        Self::with_flags(kind, name, (value_size, entries), 0)
    }

    /// As [`Map::create`], with `BPF_F_` flags.
    pub(super) fn with_flags(
        kind: MapKind,
        name: &str,
        (value_size, entries): (u32, u32),
        map_flags: u32,
    ) -> Result<Map> {
        const CALL: &str = "bpf BPF_MAP_CREATE";
        let entry_bytes = match kind {
            MapKind::Array | MapKind::Dev | MapKind::Xsk => value_size as usize,
            // One value per possible CPU, each rounded up (bpf_percpu_array_copy).
            MapKind::PercpuArray => (value_size as usize).next_multiple_of(8) * possible_cpus()?,
        };
        let fd = with_memory(|| {
            let mut attr = MapCreate {
                map_type: kind as u32,
                key_size: size_of::<u32>() as u32,
                value_size,
                max_entries: entries,
                map_flags,
                map_name: uapi::object_name(name),
                ..MapCreate::default()
            };
            // SAFETY: the attribute holds no address.
            unsafe { uapi::bpf_fd(uapi::BPF_MAP_CREATE, &mut attr) }
        })
        .map_err(|error| OsError::new(CALL, format!("map {name}"), error))?;
        Ok(Map { fd, name: name.to_owned(), kind, entry_bytes })
    }

    /// Stores `value` in entry `index`. For [`MapKind::PercpuArray`] it contains the values of all
    /// possible CPUs, each rounded up to 8 bytes.
    ///
    /// # Errors
    /// `EINVAL` if `value` does not have the size of an entry, `E2BIG` beyond the last entry; other
    /// errors of the kernel.
    pub fn update(&self, index: u32, value: &[u8]) -> Result<()> {
        const CALL: &str = "bpf BPF_MAP_UPDATE_ELEM";
        if value.len() != self.entry_bytes {
            return Err(OsError::from_errno(CALL, self.entry(index), libc::EINVAL));
        }
        // SAFETY: the kernel reads as many bytes as the slice was just found to have.
        unsafe { self.element(uapi::BPF_MAP_UPDATE_ELEM, index, value.as_ptr() as u64) }
            .map_err(|error| OsError::new(CALL, self.entry(index), error))
    }

    /// Stores an AF_XDP socket in entry `index` of a [`MapKind::Xsk`] map.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it is no AF_XDP socket, `EBADF`, `E2BIG` beyond the last entry; `EINVAL` for
    /// another type of map.
    pub fn set_socket(&self, index: u32, socket: BorrowedFd<'_>) -> Result<()> {
        if self.kind != MapKind::Xsk {
            let entry = self.entry(index);
            return Err(OsError::from_errno("bpf BPF_MAP_UPDATE_ELEM", entry, libc::EINVAL));
        }
        self.update(index, &socket.as_raw_fd().to_ne_bytes())
    }

    /// The value of entry `index`; for [`MapKind::PercpuArray`] the values of all possible CPUs,
    /// each rounded up to 8 bytes.
    ///
    /// # Errors
    /// `ENOENT` beyond the last entry, `EOPNOTSUPP` for sockets.
    pub fn lookup(&self, index: u32) -> Result<Vec<u8>> {
        let mut value = vec![0_u8; self.entry_bytes];
        // SAFETY: the kernel writes as many bytes as the vector has.
        unsafe { self.element(uapi::BPF_MAP_LOOKUP_ELEM, index, value.as_mut_ptr() as u64) }
            .map_err(|error| OsError::new("bpf BPF_MAP_LOOKUP_ELEM", self.entry(index), error))?;
        Ok(value)
    }

    /// Clears entry `index`. Only sockets can be removed. Does nothing if the entry is empty; the
    /// kernel removes a socket when it is closed.
    ///
    /// # Errors
    /// `EINVAL` for another type of map or beyond the last entry.
    pub fn delete(&self, index: u32) -> Result<()> {
        // SAFETY: the kernel does not look at the value.
        match unsafe { self.element(uapi::BPF_MAP_DELETE_ELEM, index, 0) } {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                Err(OsError::new("bpf BPF_MAP_DELETE_ELEM", self.entry(index), error))
            }
            _ => Ok(()),
        }
    }

    /// # Safety
    /// `value` is the address of memory of `entry_bytes` bytes, which `command` reads or writes.
    unsafe fn element(&self, command: i32, index: u32, value: u64) -> std::io::Result<()> {
        let mut attr = MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            key: std::ptr::from_ref(&index) as u64,
            value,
            ..MapElement::default()
        };
        // SAFETY: keys are 4 bytes; the caller vouches for the value.
        unsafe { uapi::bpf(command, &mut attr) }.map(drop)
    }

    fn entry(&self, index: u32) -> String {
        format!("map {}, entry {index}", self.name)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Highest possible CPU number plus one, which equals the kernel's `num_possible_cpus` if the
/// numbers have no gaps, as on x86 and arm64.
///
/// # Errors
/// sysfs does not report it.
pub fn possible_cpus() -> Result<usize> {
    const PATH: &str = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(PATH).map_err(|error| OsError::new("read", PATH, error))?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| OsError::from_errno("read", PATH, libc::EINVAL))
}
