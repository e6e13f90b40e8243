//! Detects a `fork`, for resources that only one process may own.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of forks between the first call and this process: it changes in a child before `fork`
/// returns there. A child that was made by the system call directly, without the C library, is not
/// detected.
pub fn generation() -> u64 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler adds to an atomic number, which is safe in a child of any process.
        // Without memory for the list of handlers nobody will notice a fork, as for a child that
        // was made past the C library.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
