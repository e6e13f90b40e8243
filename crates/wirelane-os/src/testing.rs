//! The little that this crate's privileged tests share; of the testkit, which is above this crate,
//! only what does not mention this crate's types: there they are those of another build of it.

use crate::{iface, netns};

/// Runs `body` in a thread of its own, inside a new network namespace with `lo` up. Without
/// privileges it says so and skips, or fails when `WIRELANE_REQUIRE_PRIVILEGED=1`.
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

/// Whether privileged tests can run here; reported as the testkit's other users do.
pub(crate) fn privileged() -> bool {
    wirelane_testkit::privileged::require()
}

/// Waits up to a minute for `condition`. What a closed descriptor undoes may come late here: a test
/// in another thread that is just starting a program holds copies of all descriptors until it
/// executes.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..6000 {
        if condition() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    false
}
