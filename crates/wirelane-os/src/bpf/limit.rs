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

/// Calls `make`, which creates an object. Kernels before 5.11 count its memory against
/// RLIMIT_MEMLOCK, and refuse it with `EPERM` beyond the limit. Only then this raises the limit as
/// far as permitted, and tries again: newer kernels do not need it, and raising the limit takes
/// CAP_SYS_RESOURCE.
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
