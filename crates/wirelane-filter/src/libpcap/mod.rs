//! libpcap, loaded at run time: the compiler of filter expressions, and its interpreter.
//!
//! Building does not require libpcap. Functions and structures have the declarations of
//! `pcap/pcap.h` and `pcap/bpf.h`, which are unchanged since libpcap 0.8.
#![allow(unsafe_code)]

mod binding;
mod cache;
mod functions;
mod header;
pub mod system;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::instruction::Instruction;

pub use self::beside::NO_FLAGS;
use self::functions::{BpfProgram, ERROR_SIZE, Functions};
pub use self::header::file_header;

/// The advice for systems without libpcap.
pub const INSTALL: &str = "install libpcap: the package is libpcap0.8 on Debian and Ubuntu, \
                           libpcap on Fedora, Arch and Alpine, libpcap1 on openSUSE";

/// The library of this system.
#[derive(Debug)]
pub struct Libpcap {
    functions: Functions,
    /// Compiling was not thread-safe before libpcap 1.8, and name look-ups are not thread-safe on
    /// every system.
    compiling: Mutex<()>,
}

/// `PCAP_NETMASK_UNKNOWN`: makes `ip broadcast` an error.
const NETMASK_UNKNOWN: u32 = u32::MAX;

/// `DLT_NULL`, `DLT_LOOP` and `DLT_ENC`, which have the same numbers in files.
const FAMILY_LINK_TYPES: [i32; 3] = [0, 108, 109];

/// Where a program finds the outer VLAN tag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// In its bytes, as in a capture file.
    Bytes,
    /// Beside it, as in the kernel's filter of a socket.
    Kernel,
}

/// The library of this system, loaded by the first call.
///
/// # Errors
/// The library does not exist or lacks a function: the message of the dynamic linker.
pub fn library() -> Result<&'static Libpcap, String> {
    static LIBRARY: OnceLock<Result<Libpcap, String>> = OnceLock::new();
    let load = || {
        let functions = Functions::load()?;
        Ok(Libpcap { functions, compiling: Mutex::new(()) })
    };
    LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
}

impl Libpcap {
    /// The version text of the library, such as `libpcap version 1.10.3`.
    pub fn version(&self) -> String {
        // SAFETY: a string that stays.
        let version = unsafe { CStr::from_ptr((self.functions.version)()) };
        version.to_string_lossy().into_owned()
    }

    /// Compiles `expression` for packets of a link type (libpcap's `DLT_` number). The program
    /// accepts `snaplen` bytes.
    ///
    /// # Errors
    /// The message of libpcap; [`NO_FLAGS`].
    pub fn compile(
        &self,
        expression: &CStr,
        (link_type, view): (i32, View),
        snaplen: i32,
        optimize: bool,
    ) -> Result<Vec<Instruction>, String> {
        let _one_at_a_time = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        // On link types that begin with an address family, each system has a different number for
        // IPv6. For a file, libpcap compares with the numbers of all systems that produce such
        // packets, and all of these handles belong to files. Otherwise it compares only with the
        // number of its system (`gen_loopback_linktype` in gencode.c).
        let begins_with_family = FAMILY_LINK_TYPES.contains(&link_type);
        let header = begins_with_family.then(|| file_header(link_type, snaplen));
        let handle = match &header {
            Some(header) => self.open_file(header),
            // SAFETY: takes two numbers.
            None => NonNull::new(unsafe { (self.functions.open_dead)(link_type, snaplen) }),
        };
        let Some(handle) = handle else {
            return Err("libpcap is out of memory".to_owned());
        };
        // SAFETY: the handle is open and nobody else's.
        if view == View::Kernel && !unsafe { beside::set(&self.functions, handle) } {
            // SAFETY: it is open, and not used any more.
            unsafe { (self.functions.close)(handle.as_ptr()) };
            return Err(NO_FLAGS.to_owned());
        }
        let mut code = BpfProgram { len: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is open, and its file's bytes are there until the end; the expression
        // is a string; the library fills `code` if it returns 0, with memory of its own that it
        // frees, and its error text stays until the handle is closed.
        unsafe {
            let optimize = c_int::from(optimize);
            let status = (self.functions.compile)(
                handle.as_ptr(),
                &mut code,
                expression.as_ptr(),
                optimize,
                NETMASK_UNKNOWN,
            );
            let result = if status == 0 && !code.instructions.is_null() {
                Ok(std::slice::from_raw_parts(code.instructions, code.len as usize).to_vec())
            } else {
                let text = CStr::from_ptr((self.functions.last_error)(handle.as_ptr()));
                Err(text.to_string_lossy().into_owned())
            };
            if status == 0 {
                (self.functions.free_code)(&mut code);
            }
            (self.functions.close)(handle.as_ptr());
            result
        }
    }

    /// Makes a handle of `pcap_open_dead` compile for the kernel's view. Returns whether it
    /// succeeded: this needs a known version of libpcap.
    ///
    /// # Safety
    /// The handle is open, is the result of `pcap_open_dead` of this library, and no other code
    /// uses it.
    pub unsafe fn look_beside(&self, handle: NonNull<c_void>) -> bool {
        let _one_at_a_time = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: by contract.
        unsafe { beside::set(&self.functions, handle) }
    }

    /// Opens these bytes as a capture file. They must live until it is closed.
    fn open_file(&self, bytes: &[u8]) -> Option<NonNull<c_void>> {
        let mut error: [c_char; ERROR_SIZE] = [0; ERROR_SIZE];
        // SAFETY: the stream only reads the bytes, and only while it is open. The library owns it
        // from when it has opened it; if it has not, it is closed here.
        unsafe {
            let bytes_start = bytes.as_ptr().cast_mut().cast();
            let stream = NonNull::new(libc::fmemopen(bytes_start, bytes.len(), c"r".as_ptr()))?;
            let handle = (self.functions.open_file)(stream.as_ptr(), error.as_mut_ptr());
            if handle.is_null() {
                libc::fclose(stream.as_ptr());
            }
            NonNull::new(handle)
        }
    }

    /// Prepares `program` for [`Interpreter::run`]. `None` if the library finds it invalid.
    pub fn interpreter<'a>(&'a self, program: &'a [Instruction]) -> Option<Interpreter<'a>> {
        let len = c_int::try_from(program.len()).ok()?;
        // SAFETY: the instructions live through the call.
        let valid = unsafe { (self.functions.validate)(program.as_ptr(), len) } != 0;
        valid.then_some(Interpreter { library: self, program })
    }
}

/// libpcap's interpreter with a program.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter<'a> {
    library: &'a Libpcap,
    program: &'a [Instruction],
}

impl Interpreter<'_> {
    /// The number of bytes that the program accepts, of a packet of `wire_len` bytes with the
    /// captured part `data`.
    pub fn run(&self, data: &[u8], wire_len: u32) -> u32 {
        let len = c_uint::try_from(data.len()).unwrap_or(c_uint::MAX);
        // SAFETY: bpf_validate() has found that jumps and cells of scratch memory stay inside and
        // every way ends in a return; loads are checked against the length, of bytes that are
        // there. A cell that was not stored holds some number.
        unsafe {
            (self.library.functions.filter)(self.program.as_ptr(), data.as_ptr(), wire_len, len)
        }
    }
}

mod beside {
    //! Programs for the kernel's view of packets, compiled without a socket.
    //!
    //! The kernel removes the outer VLAN tag from a packet and keeps it beside the packet. libpcap
    //! compiles `vlan` for that only on a handle of an interface (`activate_pf_packet`), which
    //! needs an open socket. A program may lack the privilege when it compiles, or have no
    //! interface at all. So this module sets libpcap's flag on handles that only compile.

    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr::{self, NonNull};
    use std::sync::OnceLock;

    use super::functions::{BpfProgram, ERROR_SIZE, Functions};
    use super::header::file_header;

    /// Why a handle cannot be made to compile for the kernel's view.
    pub const NO_FLAGS: &str = "this version of the system's libpcap is not known well enough to \
                                compile \"vlan\" for the kernel, which takes the tag out of \
                                packets";

    /// Offset of `bpf_codegen_flags` in a `pcap_t`, in bytes.
    static FLAGS: OnceLock<Option<usize>> = OnceLock::new();

    /// `BPF_SPECIAL_VLAN_HANDLING`: read the tag from the kernel's metadata.
    const SPECIAL_VLAN_HANDLING: c_int = 1;

    /// Makes a handle of `pcap_open_dead` compile for the kernel's view. Returns whether it
    /// succeeded.
    ///
    /// # Safety
    /// The handle is open, of this library, and no other code uses it.
    pub(super) unsafe fn set(library: &Functions, pcap: NonNull<c_void>) -> bool {
        let flags = *FLAGS.get_or_init(|| find(library));
        if let Some(flags) = flags {
            // SAFETY: the handle is open, and the position one that `find` has looked at.
            unsafe { write(pcap, flags) };
        }
        flags.is_some()
    }

    /// Finds `bpf_codegen_flags`, which precedes `selectable_fd` in `struct pcap` of `pcap-int.h`
    /// since libpcap 1.9. `selectable_fd` is the descriptor of an open savefile, so its number is
    /// searched. As a check, a handle with the flag must compile `vlan` for the kernel's view.
    fn find(library: &Functions) -> Option<usize> {
        let flags = savefile(|file| {
            let mut error: [c_char; ERROR_SIZE] = [0; ERROR_SIZE];
            // SAFETY: the stream is open, and the library's if it opens it. The handle is open
            // until it is closed here, with the stream.
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
        // SAFETY: takes numbers; the handle is closed here; the position is inside of it, where a
        // handle without a descriptor has zeros.
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

    /// Calls `body` with a stream of a savefile that has a descriptor; `body` returns whether it
    /// closed the stream.
    fn savefile<R>(body: impl FnOnce(*mut libc::FILE) -> (Option<R>, bool)) -> Option<R> {
        // SAFETY: the name is a string; the descriptor is nobody else's.
        let mut file = unsafe {
            let file = libc::memfd_create(c"savefile".as_ptr(), libc::MFD_CLOEXEC);
            std::fs::File::from((file >= 0).then(|| OwnedFd::from_raw_fd(file))?)
        };
        file.write_all(&file_header(1, 96)).ok()?;
        // SAFETY: the descriptor is open, and the copy nobody else's: it is the stream's, once that
        // is open.
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

    /// Descriptors above this are numbers that occur nowhere else in `pcap_t`, and are below the
    /// limit of 1024.
    const UNCOMMON: c_int = 677;

    /// The offset of `number` in the handle, if it occurs only once.
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
        let mut found =
            places.filter(|place| unsafe { at(pcap, *place).read_unaligned() } == number);
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// An upper bound for the offset of `errbuf` in a `pcap_t`, which has 400 bytes before it.
    const LARGEST: usize = 4096;

    /// The address of a number in a handle.
    fn at(pcap: NonNull<c_void>, position: usize) -> *mut c_int {
        pcap.as_ptr().cast::<u8>().wrapping_add(position).cast()
    }

    /// # Safety
    /// The handle is open, and `flags` is a result of `find`.
    unsafe fn write(pcap: NonNull<c_void>, flags: usize) {
        // SAFETY: inside of the handle, by contract.
        unsafe { at(pcap, flags).write_unaligned(SPECIAL_VLAN_HANDLING) }
    }

    /// Whether `vlan` compiles to a load of the kernel's VLAN metadata.
    ///
    /// # Safety
    /// The handle is open.
    unsafe fn asks_the_kernel(library: &Functions, pcap: NonNull<c_void>) -> bool {
        let mut code = BpfProgram { len: 0, instructions: ptr::null_mut() };
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: i32 = 1;

    #[test]
    fn compiles_and_runs() {
        let library = library().unwrap();
        assert!(library.version().contains("pcap"));
        let program = library.compile(c"ip6", (ETHERNET, View::Bytes), 96, true).unwrap();
        assert_eq!(program.len(), 4);
        let interpreter = library.interpreter(&program).unwrap();
        let mut frame = [0; 60];
        assert_eq!(interpreter.run(&frame, 60), 0);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(interpreter.run(&frame, 60), 96);
        assert_eq!(interpreter.run(&frame[..13], 60), 0);
    }

    /// 24, 28 and 30 are IPv6 on the BSDs, FreeBSD and macOS, which make such files.
    #[test]
    fn address_families_are_those_of_files() {
        let library = library().unwrap();
        for (link_type, order) in [
            (0, u32::to_ne_bytes as fn(u32) -> [u8; 4]),
            (108, u32::to_be_bytes),
            (109, u32::to_ne_bytes),
        ] {
            let program = library.compile(c"ip6", (link_type, View::Bytes), 96, true).unwrap();
            let interpreter = library.interpreter(&program).unwrap();
            for (family, accepted) in [(2, 0), (24, 96), (28, 96), (30, 96), (7, 0)] {
                let mut packet = [0; 60];
                packet[..4].copy_from_slice(&order(family));
                assert_eq!(interpreter.run(&packet, 60), accepted, "{link_type} {family}");
            }
            assert!(library.compile(c"ip6 or", (link_type, View::Bytes), 96, true).is_err());
        }
    }

    #[test]
    fn vlan_asks_the_kernel_only_in_its_view() {
        let library = library().unwrap();
        let constants = |expression, view| -> Vec<u32> {
            let program = library.compile(expression, (ETHERNET, view), 262_144, true).unwrap();
            program.iter().map(|instruction| instruction.k).collect()
        };
        let vlan = c"vlan 5 and udp";
        assert!(constants(vlan, View::Kernel).contains(&beside::VLAN_TAG_PRESENT));
        assert!(!constants(vlan, View::Bytes).contains(&beside::VLAN_TAG_PRESENT));
        let udp = c"udp port 53";
        assert_eq!(constants(udp, View::Kernel), constants(udp, View::Bytes));
    }

    #[test]
    fn errors_are_what_the_library_says() {
        let library = library().unwrap();
        let error = library.compile(c"tcp prot 80", (ETHERNET, View::Bytes), 96, true).unwrap_err();
        assert!(error.contains("syntax error"), "{error}");
        assert!(library.interpreter(&[]).is_none());
    }
}
