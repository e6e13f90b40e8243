//! Measuring until a signal comes.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};
use wirelane::Result;
use wirelane_bench::report::Report;
use wirelane_bench::run::Run;

use crate::session::Signals;

/// Measures until a signal comes; what is measured next stands on a terminal.
pub(super) fn collect(measure: impl FnOnce(Run<'_>) -> Result<Report>) -> Result<Report> {
    let signals = Signals::register()?;
    let bar = progress_bar();
    let mut tell = |text: &str| {
        if let Some(bar) = &bar {
            bar.set_message(text.to_owned());
            bar.tick();
        }
    };
    let report = measure(Run {
        command: command_line(),
        revision: option_env!("WIRELANE_REVISION").map(str::to_owned),
        stop: signals.flag(),
        tell: &mut tell,
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    report
}

/// What the user typed, with the name of the program in place of its path.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("wirelane".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One line that changes, on a terminal only.
fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("[{elapsed_precise}] {wide_msg}").ok()?;
    io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}
