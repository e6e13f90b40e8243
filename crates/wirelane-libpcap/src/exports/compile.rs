//! Compiles filter expressions.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use super::facts::HandleProperties;
use super::guard;
use crate::abi::{ERRBUF_SIZE, PacketHeader, Program, status};
use crate::handle::PcapHandle;
use crate::real::{self, CompileTarget, Real, RealLibrary};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_compile(
    handle: *mut PcapHandle,
    program: *mut Program,
    expression: *const c_char,
    optimize: c_int,
    netmask: u32,
) -> c_int {
    let request = CompileRequest { program, expression, optimize, netmask };
    // SAFETY: the contract of pcap_compile(3).
    unsafe { guard::status(handle, |handle| compile(handle, &request)) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_compile_nopcap(
    snaplen: c_int,
    link: c_int,
    program: *mut Program,
    expression: *const c_char,
    optimize: c_int,
    netmask: u32,
) -> c_int {
    let request = CompileRequest { program, expression, optimize, netmask };
    let target = CompileTarget { link, snaplen, precision: 0, in_kernel: false };
    // No handle exists that could report the reason.
    guard::alone(status::ERROR, || match real::library() {
        // SAFETY: the contract of pcap_compile_nopcap(3).
        Ok(library) => unsafe { request.compile_for(library, &target) }.unwrap_or(status::ERROR),
        Err(_) => status::ERROR,
    })
}

/// The arguments of a compilation.
struct CompileRequest {
    program: *mut Program,
    expression: *const c_char,
    optimize: c_int,
    netmask: u32,
}

/// # Safety
/// The contract of pcap_compile(3).
unsafe fn compile(handle: &PcapHandle, request: &CompileRequest) -> c_int {
    if let Some(real) = handle.real() {
        // SAFETY: by contract.
        return unsafe { request.compile(real.library, real.as_ptr()) };
    }
    let Some(facts) = HandleProperties::of(handle) else {
        return handle.fail("not-yet-activated pcap_t passed to pcap_compile");
    };
    let library = match real::library() {
        Ok(library) => library,
        Err(reason) => return handle.fail(&format!("cannot compile expressions: {reason}")),
    };
    // Without `vlan`, programs are the same for the kernel and for bytes.
    // SAFETY: null or a string, by contract.
    let in_kernel = facts.in_kernel && unsafe { request.mentions(b"vlan") };
    let HandleProperties { link, snaplen, precision, .. } = facts;
    let target = CompileTarget { link, snaplen, precision, in_kernel };
    // SAFETY: by contract.
    match unsafe { request.compile_for(library, &target) } {
        Ok(status) => status,
        Err(reason) => {
            handle.say_bytes(&reason);
            status::ERROR
        }
    }
}

impl CompileRequest {
    /// # Safety
    /// The expression is null or a string.
    unsafe fn mentions(&self, word: &[u8]) -> bool {
        // SAFETY: by contract.
        !self.expression.is_null()
            && unsafe { CStr::from_ptr(self.expression) }
                .to_bytes()
                .windows(word.len())
                .any(|window| window == word)
    }

    /// Compiles with a temporary handle; the error is the handle's text.
    ///
    /// # Safety
    /// The contract of pcap_compile(3).
    unsafe fn compile_for(
        &self,
        library: &'static RealLibrary,
        target: &CompileTarget,
    ) -> Result<c_int, Vec<u8>> {
        let pcap = real::compiler(library, target).map_err(String::into_bytes)?;
        // SAFETY: only this function uses the handle; its text is copied before it is closed.
        unsafe {
            let Some(compiler) = Real::from_raw(library, pcap) else {
                return Err(b"malloc: Cannot allocate memory".to_vec());
            };
            match self.compile(library, compiler.as_ptr()) {
                0 => Ok(0),
                _ => {
                    let text = CStr::from_ptr((library.pcap_geterr)(compiler.as_ptr()));
                    Err(text.to_bytes().get(..ERRBUF_SIZE).unwrap_or(text.to_bytes()).to_vec())
                }
            }
        }
    }

    /// Compiles with an open handle of the library. The caller frees the program.
    ///
    /// # Safety
    /// The contract of pcap_compile(3), and the handle is open.
    unsafe fn compile(&self, library: &RealLibrary, pcap: *mut real::Pcap) -> c_int {
        let mut theirs = Program { len: 0, instructions: ptr::null_mut() };
        // SAFETY: by contract. The library's program is copied, and freed by the library.
        unsafe {
            let status = (library.pcap_compile)(
                pcap,
                &mut theirs,
                self.expression,
                self.optimize,
                self.netmask,
            );
            if status != 0 {
                return status;
            }
            let copied = copy(&theirs);
            (library.pcap_freecode)(&mut theirs);
            let (Some(copied), Some(program)) = (copied, self.program.as_mut()) else {
                return status::ERROR;
            };
            *program = copied;
            status
        }
    }
}

/// A copy in memory that the program's allocator can free. The real library may use another
/// allocator.
///
/// # Safety
/// The program has its instructions.
unsafe fn copy(program: &Program) -> Option<Program> {
    let len = program.len as usize;
    // SAFETY: room for as many instructions, or null.
    unsafe {
        let instructions: *mut libc::sock_filter =
            libc::malloc(len * size_of::<libc::sock_filter>()).cast();
        if instructions.is_null() {
            return None;
        }
        instructions.copy_from_nonoverlapping(program.instructions, len);
        Some(Program { len: program.len, instructions })
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_freecode(program: *mut Program) {
    // SAFETY: null, or a program of pcap_compile(), or one that the caller made with malloc(3).
    unsafe {
        let Some(program) = program.as_mut() else { return };
        libc::free(program.instructions.cast());
        *program = Program { len: 0, instructions: ptr::null_mut() };
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_offline_filter(
    program: *const Program,
    header: *const PacketHeader,
    packet: *const u8,
) -> c_int {
    // SAFETY: null, or the caller's, by the contract of pcap_offline_filter(3).
    unsafe {
        let (Some(program), Some(header)) = (program.as_ref(), header.as_ref()) else { return 0 };
        if program.instructions.is_null() {
            return 0;
        }
        let (original, captured) = (header.original, header.captured);
        super::bpf::bpf_filter(program.instructions, packet, original, captured).cast_signed()
    }
}
