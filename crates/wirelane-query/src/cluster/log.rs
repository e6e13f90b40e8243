//! Prints Ballista's messages on standard error.

use std::io::{self, Write as _};

use log::{Level, LevelFilter, Log, Metadata, Record};

struct LogLines;

/// Prints warnings and errors; with `verbose`, also information.
pub(crate) fn start(verbose: bool) {
    // An earlier logger stays.
    if log::set_logger(&LogLines).is_ok() {
        log::set_max_level(if verbose { LevelFilter::Info } else { LevelFilter::Warn });
    }
}

impl Log for LogLines {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.level() <= Level::Info && about.target().starts_with("ballista")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str().to_ascii_lowercase();
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "{level}: {}", record.args());
        }
    }

    fn flush(&self) {}
}
