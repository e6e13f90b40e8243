//! CPU affinity of the threads of a property.
//!
//! The frames of one thread arrive in order only if the thread stays on one CPU: a veth without
//! NAPI puts frames into the backlog of the sending CPU (`netif_rx`), and the kernel does not order
//! the backlogs of two CPUs. Therefore each sending thread is pinned.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use wirelane_os::affinity;

/// The CPUs that tests may use.
fn cpus() -> &'static [u32] {
    static CPUS: OnceLock<Vec<u32>> = OnceLock::new();
    CPUS.get_or_init(|| affinity::allowed_cpus().unwrap())
}

/// Pins the calling thread, which sends, to one CPU. Each call uses the next CPU.
pub(crate) fn stay() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let (cpus, call) = (cpus(), CALLS.fetch_add(1, Ordering::Relaxed));
    affinity::pin(cpus[call % cpus.len()]).unwrap();
}

/// Starts a receiving thread that may run on any CPU, even if the calling thread is pinned.
pub(crate) fn spawn<T: Send + 'static>(
    action: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let cpus = cpus();
    thread::spawn(move || {
        affinity::pin_to(cpus).unwrap();
        action()
    })
}
