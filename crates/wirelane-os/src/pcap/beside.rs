//! Programs for the kernel's view of packets, compiled without a socket.
//!
//! The kernel takes the outer VLAN tag out of a packet and keeps it beside it. libpcap compiles `vlan` for
//! that on a handle of an interface only (`activate_pf_packet`), for which a socket has to be opened. A
//! program may be without the privilege when it compiles, or have no interface at all: so the flag that
//! libpcap sets there is set here, on handles that only compile.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use super::functions::{Code, ERROR_SIZE, Functions};
use super::header::file_header;

/// Why a handle cannot be made to compile for the kernel's view.
pub const NO_FLAGS: &str = "this version of the system's libpcap is not known well enough to compile \
                            \"vlan\" for the kernel, which takes the tag out of packets";

/// Where in a `pcap_t` its `bpf_codegen_flags` are, in bytes.
static FLAGS: OnceLock<Option<usize>> = OnceLock::new();

/// `BPF_SPECIAL_VLAN_HANDLING`: look for the tag in what the kernel knows of the packet.
const SPECIAL_VLAN_HANDLING: c_int = 1;

/// Makes a handle of `pcap_open_dead` compile for the kernel's view. Returns whether it does now.
///
/// # Safety
/// The handle is open, of this library, and nobody else's.
pub(super) unsafe fn set(library: &Functions, pcap: NonNull<c_void>) -> bool {
    let flags = *FLAGS.get_or_init(|| find(library));
    if let Some(flags) = flags {
        // SAFETY: the handle is open, and the position one that `find` has looked at.
        unsafe { write(pcap, flags) };
    }
    flags.is_some()
}

/// Looks for `bpf_codegen_flags`, which `struct pcap` of `pcap-int.h` has just before `selectable_fd` from
/// libpcap 1.9 to 1.10 and after. The latter is the descriptor of an open savefile, so it is found by
/// its number. Then a handle with the flag has to compile `vlan` as the kernel needs it.
fn find(library: &Functions) -> Option<usize> {
    let flags = savefile(|file| {
        let mut error: [c_char; ERROR_SIZE] = [0; ERROR_SIZE];
        // SAFETY: the stream is open, and the library's if it opens it. The handle is open until it is
        // closed here, with the stream.
        unsafe {
            let Some(pcap) = NonNull::new((library.open_file)(file, error.as_mut_ptr())) else {
                return (None, false);
            };
            let found = only_position(library, pcap, libc::fileno(file));
            (library.close)(pcap.as_ptr());
            (found, true)
        }
    })?;
    let flags = flags.checked_sub(size_of::<c_int>())?;
    // SAFETY: takes numbers; the handle is closed here; the position is inside of it, where a handle without
    // a descriptor has zeros.
    unsafe {
        let pcap = NonNull::new((library.open_dead)(1, 96))?;
        let unused = at(pcap, flags).read_unaligned() == 0;
        let works = unused && {
            write(pcap, flags);
            asks_the_kernel(library, pcap)
        };
        (library.close)(pcap.as_ptr());
        works.then_some(flags)
    }
}

/// Calls `body` with a stream of a savefile that has a descriptor; it says whether the stream is closed.
fn savefile<R>(body: impl FnOnce(*mut libc::FILE) -> (Option<R>, bool)) -> Option<R> {
    // SAFETY: the name is a string; the descriptor is nobody else's.
    let mut file = unsafe {
        let file = libc::memfd_create(c"savefile".as_ptr(), libc::MFD_CLOEXEC);
        std::fs::File::from((file >= 0).then(|| OwnedFd::from_raw_fd(file))?)
    };
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
unsafe fn only_position(
    library: &Functions,
    pcap: NonNull<c_void>,
    number: c_int,
) -> Option<usize> {
    // SAFETY: pcap_geterr() gives the address of a member, behind those looked at here.
    let end = unsafe { (library.last_error)(pcap.as_ptr()) }.addr();
    let end = end.checked_sub(pcap.addr().get())?;
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
fn at(pcap: NonNull<c_void>, position: usize) -> *mut c_int {
    pcap.as_ptr().cast::<u8>().wrapping_add(position).cast()
}

/// # Safety
/// The handle is open, and `flags` what `find` gave.
unsafe fn write(pcap: NonNull<c_void>, flags: usize) {
    // SAFETY: inside of the handle, by contract.
    unsafe { at(pcap, flags).write_unaligned(SPECIAL_VLAN_HANDLING) }
}

/// Whether `vlan` is compiled to a load of what the kernel knows of the packet.
///
/// # Safety
/// The handle is open.
unsafe fn asks_the_kernel(library: &Functions, pcap: NonNull<c_void>) -> bool {
    let mut code = Code { len: 0, instructions: ptr::null_mut() };
    let vlan: &CStr = c"vlan";
    // SAFETY: by contract; the instructions are there until they are freed.
    unsafe {
        if (library.compile)(pcap.as_ptr(), &mut code, vlan.as_ptr(), 1, 0) != 0 {
            return false;
        }
        let instructions = std::slice::from_raw_parts(code.instructions, code.len as usize);
        let asks = instructions.iter().any(|instruction| instruction.k == VLAN_TAG_PRESENT);
        (library.free_code)(&mut code);
        asks
    }
}

/// `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT` of `linux/filter.h`.
pub(super) const VLAN_TAG_PRESENT: u32 = (-0x1000_i32 + 48).cast_unsigned();

const _: () = assert!(size_of::<*mut c_void>() >= size_of::<c_int>());
