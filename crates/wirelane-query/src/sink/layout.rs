//! The path of a file in the store: `date=2026-11-23/hour=13/host=NAME/…parquet`.

use std::fs;
use std::process;

use wirelane_wire::date;

const NANOSECONDS_PER_HOUR: u64 = 3_600_000_000_000;

/// The hour of a time in ns since 1970.
pub(crate) fn hour_of(time: u64) -> u64 {
    time / NANOSECONDS_PER_HOUR
}

/// The path of file `number` of this process. Its rows began in `hour`, the earliest at `start`, in
/// ns.
pub(crate) fn path(kind: &str, hour: u64, host: &str, start: u64, number: u64) -> String {
    let (year, month, day) = date::of_day(hour / 24);
    let second = start / 1_000_000_000 % 3600;
    let (minute, second) = (second / 60, second % 60);
    let (of_day, process) = (hour % 24, process::id());
    format!(
        "date={year:04}-{month:02}-{day:02}/hour={of_day:02}/host={host}/\
         {kind}-{of_day:02}{minute:02}{second:02}-{process}-{number}.parquet"
    )
}

/// The name of this host.
pub(crate) fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    clean(name.trim())
}

/// Makes a path component of any name: engines split paths at `=` and `/`.
pub(crate) fn clean(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_hour_and_host() {
        let start = 1_795_401_704_123_456_789;
        let path = path("flows", hour_of(start), "a", start, 3);
        let process = process::id();
        assert_eq!(
            path,
            format!("date=2026-11-23/hour=02/host=a/flows-024144-{process}-3.parquet")
        );
    }

    #[test]
    fn names_of_hosts_are_parts_of_paths() {
        assert_eq!(clean("a/b=c d"), "a_b_c_d");
        assert_eq!(clean(""), "unknown");
    }
}
