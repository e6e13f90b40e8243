//! Helpers of this crate's privileged tests. The testkit depends on this crate, so only its
//! functions without types of this crate are usable here: its types are from another build.

use crate::{iface, netns};

/// Runs `body` in a separate thread, inside a new network namespace with `lo` up. Without
/// privileges it prints a note and skips, or fails when `WIRELANE_REQUIRE_PRIVILEGED=1`.
pub(crate) fn in_new_namespace(body: impl FnOnce() + Send) {
    if !privileged() {
        return;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            netns::unshare_net().unwrap();
            iface::up("lo").unwrap();
            body();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Whether privileged tests can run here; reported in the same way as by the testkit.
pub(crate) fn privileged() -> bool {
    wirelane_testkit::privileged::require()
}

/// Waits up to a minute for `condition`. The effect of closing a descriptor may be late in tests: a
/// child of another thread holds copies of all descriptors until it executes a program.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..6000 {
        if condition() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    false
}
