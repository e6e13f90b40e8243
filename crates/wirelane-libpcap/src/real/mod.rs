//! The system's libpcap. It reads savefiles, compiles expressions, resolves names, and opens
//! devices that are not network interfaces.
#![allow(unsafe_code)]

mod compiler;
mod functions;

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::OnceLock;

use wirelane_filter::libpcap::{INSTALL, system};

pub(crate) use compiler::{CompileTarget, open as compiler};
pub(crate) use functions::{Functions, Pcap};

/// The real library.
#[derive(Debug)]
pub(crate) struct RealLibrary {
    functions: Functions,
}

/// The library of this system, loaded at the first call. Creating a handle calls it early, because
/// the program may change its user or root directory later.
///
/// # Errors
/// There is none, or it is too old. The text names the package to install.
pub(crate) fn library() -> Result<&'static RealLibrary, String> {
    static LIBRARY: OnceLock<Result<RealLibrary, String>> = OnceLock::new();
    let load = || {
        let system = system::system()?;
        Ok(RealLibrary { functions: Functions::of(system)? })
    };
    let library = LIBRARY.get_or_init(load).as_ref();
    library.map_err(|reason: &String| format!("no libpcap of the system: {reason}; {INSTALL}"))
}

impl Deref for RealLibrary {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// An open handle of the real library, closed when dropped.
#[derive(Debug)]
pub(crate) struct Real {
    pub(crate) library: &'static RealLibrary,
    pub(crate) pcap: NonNull<Pcap>,
}

impl Real {
    /// Takes ownership of a handle that the library returned; `None` if it is null.
    ///
    /// # Safety
    /// `pcap` is an open handle of that library, and has no other owner.
    pub(crate) unsafe fn from_raw(library: &'static RealLibrary, pcap: *mut Pcap) -> Option<Self> {
        Some(Self { library, pcap: NonNull::new(pcap)? })
    }

    pub(crate) fn as_ptr(&self) -> *mut Pcap {
        self.pcap.as_ptr()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // SAFETY: it is open, and not used any more.
        unsafe { (self.library.pcap_close)(self.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn every_function_is_there() {
        let library = library().unwrap();
        // SAFETY: takes a number, and gives a string that stays.
        let name = unsafe { CStr::from_ptr((library.pcap_datalink_val_to_name)(1)) };
        assert_eq!(name, c"EN10MB");
    }

    #[test]
    fn handles_are_closed() {
        let library = library().unwrap();
        // SAFETY: takes numbers, and the handle is ours.
        let dead = unsafe {
            let pcap = (library.pcap_open_dead_with_tstamp_precision)(1, 96, 0);
            Real::from_raw(library, pcap).unwrap()
        };
        // SAFETY: it is open.
        assert_eq!(unsafe { (library.pcap_snapshot)(dead.as_ptr()) }, 96);
    }
}
