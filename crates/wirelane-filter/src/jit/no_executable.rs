//! Replaces executable memory on systems other than Linux.

use std::io;

use crate::error::Refused;

/// Executable memory on systems without it: no value exists.
#[derive(Debug)]
pub(super) enum Executable {}

impl Executable {
    pub(super) fn new(code: &[u8]) -> Result<Self, Refused> {
        let object = format!("{} bytes of machine code", code.len());
        Err(Refused { call: "mmap", object, source: io::ErrorKind::Unsupported.into() })
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        match *self {}
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match *self {}
    }
}
