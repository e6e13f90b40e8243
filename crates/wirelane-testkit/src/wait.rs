//! Waits for conditions.

use std::thread;
use std::time::Duration;

/// Waits up to a minute for `condition`, and returns whether it became true. The effect of closing
/// a descriptor may be late in tests: a child of another thread holds copies of all descriptors
/// until it executes a program.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    for _ in 0..30_000 {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(2));
    }
    false
}
