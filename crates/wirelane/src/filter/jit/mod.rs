//! Machine code for filters in user space.
//!
//! ```text
//!   Program ──flow──▶ Graph ──emit──▶ bytes ──Executable──▶ Jit
//!             what is known,   x86_64 or     written, then
//!             what is needed   aarch64       made executable
//! ```
//!
//! Generated code is safe for any program and any packet: it reads a packet only after it has
//! compared the place with the length of the packet, keeps scratch memory on the stack, writes nothing else
//! but verdicts, and always ends, because jumps lead forward.
//!
//! It is made from classic BPF and not from the translation to eBPF: the kernel verifies that one
//! before it runs, and here there is no verifier. That also leaves the checks of the length to the
//! generator, which can put many into one.
#![allow(unsafe_code)]

mod aarch64;
mod code;
mod emit;
mod flow;
mod sets;
mod x86_64;

#[cfg(all(test, not(miri)))]
mod tests;

use wirelane_os::executable::Executable;

use super::{Context, Packet, Program};
use crate::error::{Error, Result};
use crate::frame::{Frame, Meta};

/// Whether there is machine code for this processor.
pub const AVAILABLE: bool = cfg!(all(
    any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")),
    not(miri)
));

/// A program as machine code.
#[derive(Debug)]
pub struct Jit {
    code: Executable,
    instructions: usize,
    single: usize,
    takes_frames: bool,
}

impl Jit {
    /// Makes machine code of `program`.
    ///
    /// # Errors
    /// A usage error if the program asks for something that only the kernel's socket filter knows.
    /// Otherwise there is no machine code for this processor, or the system gives no executable
    /// memory.
    pub fn new(program: &Program) -> Result<Self> {
        program.require_portable()?;
        // Emitters only write bytes, so all of them are compiled, and tested, everywhere.
        let emitted = match std::env::consts::ARCH {
            _ if !AVAILABLE => {
                return Err(Error::failed("filter", "there is no machine code for this processor"));
            }
            "x86_64" => emit::emit::<x86_64::X86_64>(program.ops()),
            _ => emit::emit::<aarch64::Aarch64>(program.ops()),
        };
        let emit::Emitted { bytes, instructions, single, takes_frames } =
            emitted.ok_or_else(|| Error::failed("filter", "the machine code became too long"))?;
        let code = Executable::new(&bytes)
            .map_err(|error| Error::os("machine code of a filter", error))?;
        Ok(Self { code, instructions, single, takes_frames })
    }

    /// How many bytes of `packet` the program accepts; 0 rejects it.
    #[inline]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        let context = Context::new(packet);
        let mut verdict = 0;
        // SAFETY: `single` is the offset of code that `emit` made for this signature, which lives
        // as long as `self`.
        let code = unsafe {
            std::mem::transmute::<*const u8, Single>(self.code.as_ptr().add(self.single))
        };
        // SAFETY: `context` describes bytes that are borrowed for the call, and the code reads none
        // beyond; it writes one verdict.
        unsafe { code(&context, &mut verdict) };
        verdict
    }

    /// For each of `frames` how many bytes the program accepts, in order, as far as both slices go.
    /// `None`, and nothing is done, if the program asks for more than the bytes and their number on
    /// the wire: then [`Jit::run`] it on each.
    #[inline]
    pub fn run_frames(&self, frames: &[Frame], verdicts: &mut [u32]) -> Option<()> {
        if !self.takes_frames {
            return None;
        }
        let count = frames.len().min(verdicts.len());
        if count > 0 {
            // SAFETY: as above; the entry for frames is at the beginning.
            let code = unsafe { std::mem::transmute::<*const u8, Frames>(self.code.as_ptr()) };
            // A frame is a transparent pointer to its meta.
            let first = frames.as_ptr().cast::<*const Meta>();
            // SAFETY: `count` frames and verdicts are there, the frames are borrowed for the call,
            // and each describes bytes of its own, beyond which the code reads none.
            unsafe { code(first, verdicts.as_mut_ptr(), first.add(count)) };
        }
        Some(())
    }

    /// The machine code, without the constants that lie behind it.
    pub fn instructions(&self) -> &[u8] {
        let bytes = self.code.bytes();
        bytes.get(..self.instructions).unwrap_or(bytes)
    }

    /// Bytes of the code with its constants.
    pub fn size(&self) -> usize {
        self.code.bytes().len()
    }
}

type Single = unsafe extern "C" fn(*const Context, *mut u32);
/// The end of the frames comes last; there must be one at least.
type Frames = unsafe extern "C" fn(*const *const Meta, *mut u32, *const *const Meta);
