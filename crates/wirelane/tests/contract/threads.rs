//! Where the threads of a property run.
//!
//! What one thread sends comes in its order as long as the thread stays on one CPU: a veth without
//! NAPI puts frames into the queue of the CPU that sends (`netif_rx`), and nobody orders the queues
//! of two CPUs. So whoever sends stays.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use wirelane_os::affinity;

/// The CPUs that tests may use.
fn cpus() -> &'static [u32] {
    static CPUS: OnceLock<Vec<u32>> = OnceLock::new();
    CPUS.get_or_init(|| affinity::allowed_cpus().unwrap())
}

/// Keeps the calling thread, which sends, on one CPU: each time on the next one.
pub(crate) fn stay() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let (cpus, call) = (cpus(), CALLS.fetch_add(1, Ordering::Relaxed));
    affinity::pin(cpus[call % cpus.len()]).unwrap();
}

/// Starts a thread that receives, on any CPU, whoever starts it.
pub(crate) fn spawn<T: Send + 'static>(
    action: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let cpus = cpus();
    thread::spawn(move || {
        affinity::pin_to(cpus).unwrap();
        action()
    })
}
