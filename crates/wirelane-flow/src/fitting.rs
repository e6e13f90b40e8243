//! Limits the number of flows to the available memory.
//!
//! Each flow takes memory when it begins, and the kernel kills a process that exceeds the limit of
//! its cgroup. So the number of flows is limited from the start.

use wirelane::{Error, Result};
use wirelane_os::memory::{self, Room};

/// Bytes per flow with a single table: its entry, its place in the index (twice while the index
/// grows) and its link on the wheel.
const ALONE: u64 = 288;
/// Bytes per flow with several tables, including the join of its parts and the end of all flows.
const JOINED: u64 = 2048;
/// Bytes of a flow queued for the sinks.
const ON_ITS_WAY: u64 = 512;
/// The approximate number of flows queued for the sinks, if memory suffices.
const WAITING: usize = 1 << 16;
/// Bytes reserved for other allocations.
const KEPT: u64 = 8 << 20;
/// The fewest flows: with less, evictions would make most records wrong.
const LEAST: u64 = 1000;

/// The number of flows that fit into `tables` tables, at most `wanted`, and a note if they are
/// fewer.
///
/// # Errors
/// Memory does not suffice for the fewest flows.
pub(crate) fn flows(wanted: usize, tables: usize) -> Result<(usize, Option<String>)> {
    fit(&memory::room(), wanted, tables)
}

/// The number of flows that may be queued for the sinks.
pub(crate) fn waiting() -> usize {
    fit_waiting(memory::room().bytes, WAITING)
}

/// The bytes for messages queued for an IPFIX collector, at most `wanted`, and a note if they are
/// fewer.
pub(crate) fn spool(wanted: usize) -> (usize, Option<String>) {
    let Room { bytes, limit } = memory::room();
    let had = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
    let note = || limit.note(format_args!("{had} bytes for queued messages"), wanted);
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

/// Bytes for flows. The rest is for sinks and ports.
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
