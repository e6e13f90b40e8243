//! Requirements of bpf(2): capabilities, and locked memory on older kernels.

use std::io;

use crate::memory;
use crate::privilege::{self, Capability};

/// The capabilities that XDP programs and their maps need and the calling thread lacks.
/// CAP_SYS_ADMIN replaces both (`bpf_capable`, `bpf_net_capable`); before Linux 5.8 it is the only
/// sufficient one.
pub fn missing_capabilities() -> Vec<Capability> {
    let Ok(have) = privilege::effective() else { return Vec::new() };
    if have.contains(Capability::SysAdmin) {
        return Vec::new();
    }
    let needed = [Capability::Bpf, Capability::NetAdmin];
    needed.into_iter().filter(|capability| !have.contains(*capability)).collect()
}

/// Makes something whose memory kernels before 5.11 count against RLIMIT_MEMLOCK, and refuse with
/// `EPERM` beyond it. Only then the limit is raised, as far as permitted, and a second attempt
/// made: newer kernels need no such thing, and raising it takes CAP_SYS_RESOURCE.
pub(super) fn with_memory<T>(mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let refused = match make() {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => error,
        result => return result,
    };
    if !missing_capabilities().is_empty() {
        return Err(refused);
    }
    if memory::lift_lock_limit() { make() } else { Err(refused) }
}
