//! The little that this crate's privileged tests share; the testkit is above this crate.

use crate::{iface, netns, privilege};

/// Runs `body` in a thread of its own, inside a new network namespace with `lo` up. Without privileges it says so and skips,
/// or fails when `WIRELANE_REQUIRE_PRIVILEGED=1`.
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

/// Whether privileged tests can run here.
pub(crate) fn privileged() -> bool {
    let needed = [
        privilege::Capability::NetAdmin,
        privilege::Capability::NetRaw,
        privilege::Capability::SysAdmin,
    ];
    let has = privilege::effective().unwrap();
    let Some(missing) = needed.into_iter().find(|capability| !has.contains(*capability)) else {
        return true;
    };
    let required =
        std::env::var_os("WIRELANE_REQUIRE_PRIVILEGED").is_some_and(|value| value == "1");
    assert!(!required, "{missing} is missing and WIRELANE_REQUIRE_PRIVILEGED=1");
    eprintln!("SKIPPED: needs {missing}");
    false
}

/// Waits up to two seconds for `condition`. What a closed descriptor undoes may come late here: a test in another thread that is just
/// starting a program holds copies of all descriptors until it executes.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..200 {
        if condition() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    false
}
