//! The functions of libpcap that this crate calls.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::NonNull;

use super::system;
use crate::instruction::Instruction;

/// The addresses of these functions.
#[derive(Debug)]
pub(super) struct Functions {
    pub(super) open_dead: OpenDead,
    pub(super) open_file: OpenFile,
    pub(super) close: Close,
    pub(super) compile: Compile,
    pub(super) free_code: FreeCode,
    pub(super) last_error: LastError,
    pub(super) filter: Filter,
    pub(super) validate: Validate,
    pub(super) version: Version,
}

type Symbol = NonNull<c_void>;
type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type OpenFile = unsafe extern "C" fn(*mut libc::FILE, *mut c_char) -> *mut c_void;
type Close = unsafe extern "C" fn(*mut c_void);
type Compile =
    unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, u32) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type LastError = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Filter = unsafe extern "C" fn(*const Instruction, *const u8, c_uint, c_uint) -> c_uint;
type Validate = unsafe extern "C" fn(*const Instruction, c_int) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;

/// `struct bpf_program`. Instructions have the layout of [`Instruction`].
#[repr(C)]
pub(super) struct BpfProgram {
    pub(super) len: c_uint,
    pub(super) instructions: *mut Instruction,
}

/// `PCAP_ERRBUF_SIZE`.
pub(super) const ERROR_SIZE: usize = 256;

impl Functions {
    /// Finds the library and its functions.
    ///
    /// # Errors
    /// The library does not exist or lacks a function: the message of the dynamic linker.
    pub(super) fn load() -> Result<Self, String> {
        let system = system::system()?;
        // SAFETY: the types are those of the declarations in pcap/pcap.h and pcap/bpf.h for these
        // names. The library is never closed, so the functions stay.
        unsafe {
            Ok(Self {
                open_dead: transmute::<Symbol, OpenDead>(system.symbol(c"pcap_open_dead")?),
                open_file: transmute::<Symbol, OpenFile>(system.symbol(c"pcap_fopen_offline")?),
                close: transmute::<Symbol, Close>(system.symbol(c"pcap_close")?),
                compile: transmute::<Symbol, Compile>(system.symbol(c"pcap_compile")?),
                free_code: transmute::<Symbol, FreeCode>(system.symbol(c"pcap_freecode")?),
                last_error: transmute::<Symbol, LastError>(system.symbol(c"pcap_geterr")?),
                filter: transmute::<Symbol, Filter>(system.symbol(c"bpf_filter")?),
                validate: transmute::<Symbol, Validate>(system.symbol(c"bpf_validate")?),
                version: transmute::<Symbol, Version>(system.symbol(c"pcap_lib_version")?),
            })
        }
    }
}
