//! Helpers of privileged tests.

use std::time::Duration;

use wirelane_os::{iface, netns};
use wirelane_testkit::privileged;

/// Runs `body` in a separate thread, inside a new network namespace with `lo` up. Without
/// privileges it prints a note and skips.
pub(crate) fn in_new_namespace(body: impl FnOnce() + Send) {
    if !privileged::require() {
        return;
    }
    let inside = || {
        netns::unshare_net().unwrap();
        iface::up("lo").unwrap();
        body();
    };
    std::thread::scope(|scope| scope.spawn(inside).join().unwrap());
}

/// Waits up to a minute for `condition`.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    (0..6000).any(|_| {
        let holds = condition();
        if !holds {
            std::thread::sleep(Duration::from_millis(10));
        }
        holds
    })
}
