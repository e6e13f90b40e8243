//! The interpreter of filter programs, and their printed form.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr;

use super::guard;
use crate::abi::Program;
use crate::real::{self, RealLibrary};

fn library() -> Option<&'static RealLibrary> {
    guard::alone(None, || real::library().ok())
}

/// Without the real library, every packet is rejected.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bpf_filter(
    instructions: *const libc::sock_filter,
    packet: *const u8,
    original: c_uint,
    captured: c_uint,
) -> c_uint {
    match library() {
        // SAFETY: the contract of bpf_filter(3).
        Some(library) => unsafe { (library.bpf_filter)(instructions, packet, original, captured) },
        None => 0,
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bpf_validate(
    instructions: *const libc::sock_filter,
    len: c_int,
) -> c_int {
    match library() {
        // SAFETY: that many instructions, by the contract of bpf_validate().
        Some(library) => unsafe { (library.bpf_validate)(instructions, len) },
        None => 0,
    }
}

/// Without the real library, the result is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bpf_image(
    instruction: *const libc::sock_filter,
    number: c_int,
) -> *mut c_char {
    match library() {
        // SAFETY: an instruction, by the contract of bpf_image().
        Some(library) => unsafe { (library.bpf_image)(instruction, number) },
        None => ptr::null_mut(),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bpf_dump(program: *const Program, option: c_int) {
    if let Some(library) = library() {
        // SAFETY: a program, by the contract of bpf_dump(3).
        unsafe { (library.bpf_dump)(program, option) }
    }
}
