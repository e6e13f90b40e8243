//! Measures until a signal arrives.

use std::time::Instant;

use wirelane::Result;
use wirelane_cli::output::screen;
use wirelane_cli::signals::Signals;

use crate::report::BenchReport;
use crate::run::BenchRun;

/// Measures until a signal arrives. On a terminal, shows the elapsed time and the current
/// measurement.
pub(super) fn collect(
    measure: impl FnOnce(BenchRun<'_>) -> Result<BenchReport>,
) -> Result<BenchReport> {
    let signals = Signals::register()?;
    let started = Instant::now();
    let mut tell = |text: &str| {
        let seconds = started.elapsed().as_secs();
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        screen::show(vec![format!("[{hours:02}:{minutes:02}:{:02}] {text}", seconds % 60)]);
    };
    let report = measure(BenchRun {
        command: command_line(),
        revision: option_env!("WIRELANE_REVISION").map(str::to_owned),
        stop: signals.flag(),
        tell: &mut tell,
    });
    screen::clear();
    report
}

/// The command line that starts this benchmark.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    ["wirelane", "bench"]
        .map(str::to_owned)
        .into_iter()
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
