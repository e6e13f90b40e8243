//! Handles of the real library that only compile, for a capture of ours.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

use wirelane_os::pcap::file_header;

use super::functions::{Functions, Pcap};
use crate::abi::{ERRBUF_SIZE, Program};

/// What programs are compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// `DLT_…`.
    pub(crate) link: c_int,
    pub(crate) snaplen: c_int,
    /// `PCAP_TSTAMP_PRECISION_…`.
    pub(crate) precision: c_int,
    /// Whether the kernel runs them, which has taken the VLAN tag out of the packet.
    pub(crate) in_kernel: bool,
}

/// A handle for [`Target`], to be closed by `pcap_close`. Null without memory.
///
/// # Errors
/// The kernel runs the programs, and this library cannot be made to compile `vlan` for it.
pub(crate) fn open(functions: &Functions, target: &Target) -> Result<*mut Pcap, &'static str> {
    let Target { link, snaplen, precision, in_kernel } = *target;
    // SAFETY: takes numbers. One that it does not know is as 0.
    let pcap = unsafe {
        (functions.pcap_open_dead_with_tstamp_precision)(link, snaplen, precision.cast_unsigned())
    };
    if in_kernel && !pcap.is_null() {
        match *FLAGS.get_or_init(|| find_flags(functions)) {
            // SAFETY: the handle is open, and one of those that `find_flags` has looked at.
            Some(flags) => unsafe { set(pcap, flags) },
            None => {
                // SAFETY: it is open, and not used any more.
                unsafe { (functions.pcap_close)(pcap) };
                return Err(NO_FLAGS);
            }
        }
    }
    Ok(pcap)
}

const NO_FLAGS: &str = "this version of the system's libpcap is not known well enough to compile \
                        \"vlan\" for the kernel, which takes the tag out of packets";

/// Where in a `pcap_t` its `bpf_codegen_flags` are, in bytes.
static FLAGS: OnceLock<Option<usize>> = OnceLock::new();

/// `BPF_SPECIAL_VLAN_HANDLING`: look for the tag in what the kernel knows of the packet. libpcap sets it
/// in `activate_pf_packet`, for which a socket has to be opened. A program may be without the privilege
/// when it compiles: tcpdump changes its user between activating and compiling.
const SPECIAL_VLAN_HANDLING: c_int = 1;

/// Looks for `bpf_codegen_flags`, which `struct pcap` of `pcap-int.h` has just before `selectable_fd` from
/// libpcap 1.9 to 1.10 and after. The latter is the descriptor of an open savefile, so it is found by
/// its number. Then a handle with the flag has to compile `vlan` as the kernel needs it.
fn find_flags(functions: &Functions) -> Option<usize> {
    let flags = savefile(|file| {
        let mut error: [c_char; ERRBUF_SIZE] = [0; ERRBUF_SIZE];
        // SAFETY: the stream is open, and the library's if it opens it.
        let pcap = unsafe {
            (functions.pcap_fopen_offline_with_tstamp_precision)(file, 0, error.as_mut_ptr())
        };
        if pcap.is_null() {
            return (None, false);
        }
        // SAFETY: the handle is open until it is closed here, with the stream.
        unsafe {
            let found = only_position(functions, pcap, libc::fileno(file));
            (functions.pcap_close)(pcap);
            (found, true)
        }
    })?;
    let flags = flags.checked_sub(size_of::<c_int>())?;
    // SAFETY: takes numbers; the handle is closed here; the position is inside of it, where a handle without
    // a descriptor has zeros.
    unsafe {
        let pcap = (functions.pcap_open_dead_with_tstamp_precision)(1, 96, 0);
        if pcap.is_null() {
            return None;
        }
        let unused = at(pcap, flags).read_unaligned() == 0;
        let works = unused && {
            set(pcap, flags);
            asks_the_kernel(functions, pcap)
        };
        (functions.pcap_close)(pcap);
        works.then_some(flags)
    }
}

/// Calls `body` with a stream of a savefile that has a descriptor; it says whether the stream is closed.
fn savefile<R>(body: impl FnOnce(*mut libc::FILE) -> (Option<R>, bool)) -> Option<R> {
    let file = rustix::fs::memfd_create("savefile", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let mut file = std::fs::File::from(file);
    file.write_all(&file_header(1, 96)).ok()?;
    // SAFETY: the descriptor is open, and the copy nobody else's: it is the stream's, once that is open.
    unsafe {
        let copy = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, UNCOMMON);
        let copy = (copy >= 0).then(|| OwnedFd::from_raw_fd(copy))?;
        libc::lseek(copy.as_raw_fd(), 0, libc::SEEK_SET);
        let stream = libc::fdopen(copy.as_raw_fd(), c"r".as_ptr());
        if stream.is_null() {
            return None;
        }
        std::mem::forget(copy);
        let (result, closed) = body(stream);
        if !closed {
            libc::fclose(stream);
        }
        result
    }
}

/// A descriptor above it is a number that `pcap_t` has nowhere else, and below the limit of 1024.
const UNCOMMON: c_int = 677;

/// Where `number` is in the handle, if at one place only.
///
/// # Safety
/// The handle is open.
unsafe fn only_position(functions: &Functions, pcap: *mut Pcap, number: c_int) -> Option<usize> {
    // SAFETY: pcap_geterr() gives the address of a member, behind those looked at here.
    let end = unsafe { (functions.pcap_geterr)(pcap) }.addr().checked_sub(pcap.addr())?;
    if end > LARGEST {
        return None;
    }
    let places = (0..end / size_of::<c_int>()).map(|index| index * size_of::<c_int>());
    // SAFETY: inside of the handle.
    let mut found = places.filter(|place| unsafe { at(pcap, *place).read_unaligned() } == number);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// More than `errbuf` can be from the begin of a `pcap_t`, which has 400 bytes before it.
const LARGEST: usize = 4096;

/// A number inside of a handle.
fn at(pcap: *mut Pcap, position: usize) -> *mut c_int {
    pcap.cast::<u8>().wrapping_add(position).cast()
}

/// # Safety
/// The handle is open, and `flags` what `find_flags` gave.
unsafe fn set(pcap: *mut Pcap, flags: usize) {
    // SAFETY: inside of the handle, by contract.
    unsafe { at(pcap, flags).write_unaligned(SPECIAL_VLAN_HANDLING) }
}

/// Whether `vlan` is compiled to a load of what the kernel knows of the packet.
///
/// # Safety
/// The handle is open.
unsafe fn asks_the_kernel(functions: &Functions, pcap: *mut Pcap) -> bool {
    let mut program = Program { len: 0, instructions: ptr::null_mut() };
    let vlan: &CStr = c"vlan";
    // SAFETY: by contract; the instructions are there until they are freed.
    unsafe {
        if (functions.pcap_compile)(pcap, &mut program, vlan.as_ptr(), 1, 0) != 0 {
            return false;
        }
        let instructions = std::slice::from_raw_parts(program.instructions, program.len as usize);
        let asks = instructions.iter().any(|instruction| instruction.k == VLAN_TAG_PRESENT);
        (functions.pcap_freecode)(&mut program);
        asks
    }
}

/// `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT` of `linux/filter.h`.
const VLAN_TAG_PRESENT: u32 = (-0x1000_i32 + 48).cast_unsigned();

const _: () = assert!(size_of::<*mut c_void>() >= size_of::<c_int>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::{Real, library};

    fn compiled(expression: &CStr, in_kernel: bool) -> Vec<u32> {
        let library = library().unwrap();
        let target = Target { link: 1, snaplen: 262_144, precision: 0, in_kernel };
        let pcap = open(library, &target).unwrap();
        // SAFETY: the handle is nobody else's; the program is freed after it is copied.
        unsafe {
            let real = Real::from_raw(library, pcap).unwrap();
            let mut program = Program { len: 0, instructions: ptr::null_mut() };
            let status =
                (library.pcap_compile)(real.as_ptr(), &mut program, expression.as_ptr(), 1, 0);
            assert_eq!(status, 0);
            let constants = (0..program.len as usize).map(|i| (*program.instructions.add(i)).k);
            let constants = constants.collect();
            (library.pcap_freecode)(&mut program);
            constants
        }
    }

    #[test]
    fn vlan_asks_the_kernel_only_where_the_kernel_runs_it() {
        assert!(compiled(c"vlan 5 and udp", true).contains(&VLAN_TAG_PRESENT));
        assert!(!compiled(c"vlan 5 and udp", false).contains(&VLAN_TAG_PRESENT));
        assert_eq!(compiled(c"udp port 53", true), compiled(c"udp port 53", false));
    }
}
