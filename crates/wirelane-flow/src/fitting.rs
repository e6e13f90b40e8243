//! How many flows fit the memory that is left.
//!
//! Memory is taken flow by flow, and a process that takes more than its cgroup allows is killed
//! without a word. So the number of flows is limited from the start.

use wirelane::{Error, Result};
use wirelane_os::memory::{self, Room};

/// Bytes of a flow in the only table: its entry, its places in the index (twice while that
/// grows) and on the wheel.
const ALONE: u64 = 288;
/// Bytes of a flow in one of several tables, while its parts are joined, and when all of them end.
const JOINED: u64 = 2048;
/// Bytes of a flow on its way to the sinks.
const ON_ITS_WAY: u64 = 512;
/// Flows that may wait for the sinks, about, if memory suffices.
const WAITING: usize = 1 << 16;
/// Reserved for memory that is not checked.
const KEPT: u64 = 8 << 20;
/// With fewer flows at a time, most records would not be true.
const LEAST: u64 = 1000;

/// How many of `wanted` flows fit, in so many tables, and a sentence if these are fewer.
///
/// # Errors
/// Not even a few.
pub(crate) fn flows(wanted: usize, tables: usize) -> Result<(usize, Option<String>)> {
    fit(&memory::room(), wanted, tables)
}

/// How many flows may be on their way to the sinks.
pub(crate) fn waiting() -> usize {
    fit_waiting(memory::room().bytes, WAITING)
}

/// How many of `wanted` bytes messages may take that wait for a collector, and a sentence if these
/// are fewer.
pub(crate) fn spool(wanted: usize) -> (usize, Option<String>) {
    let Room { bytes, limit } = memory::room();
    let had = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
    let note = || limit.note(format_args!("{had} bytes for messages that wait"), wanted);
    (wanted.min(had), (had < wanted).then(note))
}

fn fit(room: &Room, wanted: usize, tables: usize) -> Result<(usize, Option<String>)> {
    let Room { bytes, limit } = room;
    let each = if tables > 1 { JOINED } else { ALONE };
    let waiting = fit_waiting(*bytes, WAITING) as u64 * ON_ITS_WAY;
    let had = share(*bytes).saturating_sub(waiting) / each;
    let least = LEAST.min(wanted as u64);
    if had < least {
        let needed = (KEPT + (least * each + waiting) / 3 * 4) >> 10;
        let cause = format!("{needed} KiB are needed, and {limit} leaves {} KiB", bytes >> 10);
        let help = "raise the limit, or meter fewer flows at a time";
        return Err(Error::failed(format!("memory for {least} flows"), cause).help(help));
    }
    let had = usize::try_from(had).unwrap_or(usize::MAX);
    let note = (had < wanted).then(|| limit.note(format_args!("{had} flows at one time"), wanted));
    Ok((wanted.min(had), note))
}

fn fit_waiting(bytes: u64, wanted: usize) -> usize {
    usize::try_from(share(bytes) / 4 / ON_ITS_WAY).map_or(wanted, |most| wanted.min(most))
}

/// Bytes for flows; the rest is for sinks and ports.
fn share(bytes: u64) -> u64 {
    bytes.saturating_sub(KEPT) / 4 * 3
}

#[cfg(test)]
mod tests {
    use wirelane_os::memory::Limit;

    use super::*;

    #[test]
    fn what_is_left_limits_the_flows() {
        let fit = |bytes: u64, wanted, tables| {
            fit(&Room { bytes: bytes << 20, limit: Limit::Machine }, wanted, tables)
        };
        assert_eq!(fit(16 << 10, 1_000_000, 4).unwrap(), (1_000_000, None));
        let (flows, note) = fit(120, 1_000_000, 1).unwrap();
        assert!((200_000..250_000).contains(&flows), "{flows}");
        let note = note.unwrap();
        assert!(note.starts_with(&format!("{flows} flows at one time instead of 1000000: ")));
        let (flows, _) = fit(120, 1_000_000, 4).unwrap();
        assert!((30_000..40_000).contains(&flows), "{flows}");
        assert_eq!(fit(16, 100, 1).unwrap(), (100, None));
        let error = fit(9, 1_000_000, 4).unwrap_err().to_string();
        assert!(error.contains(" KiB are needed, and the machine's memory leaves 9216 KiB"));
        assert!(fit(4, 10, 1).is_err());
        assert_eq!([fit_waiting(u64::MAX, 9), fit_waiting(KEPT, 9)], [9, 0]);
    }
}
