//! The options of statistics blocks.

use super::blocks::*;
use crate::record::Statistics;

/// Stores the value of an option, as a count or as a time.
pub(super) fn note(
    statistics: &mut Statistics,
    code: u16,
    count: u64,
    time: impl FnOnce() -> Option<u64>,
) {
    match code {
        ISB_START => statistics.start = time(),
        ISB_END => statistics.end = time(),
        ISB_RECEIVED => statistics.received = Some(count),
        ISB_DROPPED => statistics.dropped = Some(count),
        ISB_FILTER_ACCEPTED => statistics.filter_accepted = Some(count),
        ISB_OS_DROPPED => statistics.os_dropped = Some(count),
        ISB_DELIVERED => statistics.delivered = Some(count),
        _ => {}
    }
}
