//! The answer for people.

use std::time::Duration;

use wirelane_store::Report;

use super::arguments::ExtractArgs;
use crate::output::{self, counted, grouped, line, name_of, plural, sized};

/// Prints how many packets match, and how much was read.
pub(super) fn summary(args: &ExtractArgs, report: &Report, elapsed: Duration) {
    let name = match &args.write {
        Some(path) => name_of(path, "standard output") + ": ",
        None => String::new(),
    };
    let mut found = name + &counted(report.packets, "packet");
    if args.write.is_some() {
        found += &format!(", {}", sized(report.bytes));
    }
    if args.flow {
        found += &format!(", {}", plural(report.flows, "conversation"));
    }
    line(format_args!("{found}; {:.3} s", elapsed.as_secs_f64()));
    let passes = match report.passes {
        0 | 1 => format!("in {} of ", grouped(report.opened)),
        passes => format!("in {passes} passes over "),
    };
    line(format_args!(
        "read {} of {} ({}) {passes}{}",
        grouped(report.extents_read),
        plural(report.extents, "extent"),
        sized(report.bytes_read),
        plural(report.segments, "segment"),
    ));
    notes(report).iter().for_each(output::note);
}

/// Why the answer may be incomplete without a fault.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.deleted > 0 {
        let segments = plural(report.deleted, "segment");
        notes.push(format!("{segments} deleted by the recorder before they could be read"));
    }
    notes.extend(report.unfiltered.iter().map(|why| format!("not searched: {why}")));
    notes
}
