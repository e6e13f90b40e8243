//! Callable machine code.
#![allow(unsafe_code)]

use std::mem::transmute;

use super::executable::Executable;
use super::layout::{Context, Layout};
use super::{aarch64, emit, x86_64};
use crate::error::{Error, Result};
use crate::packet::Packet;
use crate::program::Program;

/// Whether there is a code generator for this processor.
pub const AVAILABLE: bool = cfg!(all(
    target_os = "linux",
    any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")),
    not(miri)
));

/// A program as machine code.
#[derive(Debug)]
pub struct Jit {
    code: Executable,
    instructions: usize,
    single: usize,
    takes_records: bool,
}

impl Jit {
    /// Generates machine code for `program`.
    ///
    /// # Errors
    /// A usage error if the program needs data that only the kernel's socket filter has. Otherwise
    /// there is no code generator for this processor, or the system provides no executable memory.
    pub fn new(program: &Program) -> Result<Self> {
        Self::with(program, None)
    }

    /// As [`Jit::new`], and also for arrays of records, for [`Jit::run_records`].
    ///
    /// # Errors
    /// As [`Jit::new`].
    pub fn for_records(program: &Program, layout: Layout) -> Result<Self> {
        Self::with(program, Some(layout))
    }

    fn with(program: &Program, layout: Option<Layout>) -> Result<Self> {
        program.require_portable()?;
        // Emitters only write bytes, so all of them are compiled and tested on every processor.
        let emitted = match std::env::consts::ARCH {
            _ if !AVAILABLE => {
                return Err(Error::failed("filter", "there is no machine code for this processor"));
            }
            "x86_64" => emit::emit::<x86_64::X86_64>(program.ops(), layout),
            _ => emit::emit::<aarch64::Aarch64>(program.ops(), layout),
        };
        let emit::Emitted { bytes, instructions, single, takes_records } =
            emitted.ok_or_else(|| Error::failed("filter", "the machine code became too long"))?;
        let code = Executable::new(&bytes)
            .map_err(|refused| Error::system("machine code of a filter", refused))?;
        Ok(Self { code, instructions, single, takes_records })
    }

    /// The number of bytes of `packet` that the program accepts; 0 rejects it.
    #[inline]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        let context = Context::new(packet);
        let mut verdict = 0;
        // SAFETY: `single` is the offset of code that `emit` made for this signature, which lives
        // as long as `self`.
        let code = unsafe { transmute::<*const u8, Single>(self.code.as_ptr().add(self.single)) };
        // SAFETY: `context` describes bytes that are borrowed for the call, and the code reads none
        // beyond; it writes one verdict.
        unsafe { code(&context, &mut verdict) };
        verdict
    }

    /// Writes to `verdicts` how many bytes of each of `records` the program accepts, up to the
    /// length of the shorter slice. Returns `None` and does nothing if this was not made [for
    /// records](Self::for_records), or if the program reads more than the bytes and their number on
    /// the wire: then call [`Jit::run`] for each.
    ///
    /// # Safety
    /// Each record has the fields that its [`Layout`] describes, and the stated number of bytes is
    /// readable during the call.
    #[inline]
    pub unsafe fn run_records<R>(&self, records: &[*const R], verdicts: &mut [u32]) -> Option<()> {
        if !self.takes_records {
            return None;
        }
        let count = records.len().min(verdicts.len());
        if count > 0 {
            // SAFETY: as above; the entry for records is at the beginning.
            let code = unsafe { transmute::<*const u8, Records>(self.code.as_ptr()) };
            let first = records.as_ptr().cast::<*const u8>();
            // SAFETY: `count` records and verdicts are there, and the caller vouches for what the
            // records say; the code reads no byte beyond.
            unsafe { code(first, verdicts.as_mut_ptr(), first.add(count)) };
        }
        Some(())
    }

    /// The machine code without the constants after it.
    pub fn instructions(&self) -> &[u8] {
        let bytes = self.code.bytes();
        bytes.get(..self.instructions).unwrap_or(bytes)
    }

    /// Bytes of the code, including its constants.
    pub fn size(&self) -> usize {
        self.code.bytes().len()
    }
}

type Single = unsafe extern "C" fn(*const Context, *mut u32);
/// The last argument is the end of the records; there must be at least one record.
type Records = unsafe extern "C" fn(*const *const u8, *mut u32, *const *const u8);
