//! Whether this process is a copy: what only one process may own has to notice a `fork`.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often this process is a copy of a copy, counted since the first call: it changes in a child,
/// before `fork` returns there. A child that was made by the system call itself, past the C
/// library, does not notice.
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
