//! What Ballista has to say, on standard error.

use std::io::{self, Write as _};

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Lines;

/// Warnings and errors; with `verbose`, also what it does.
pub(crate) fn start(verbose: bool) {
    // Whoever came first stays.
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(if verbose { LevelFilter::Info } else { LevelFilter::Warn });
    }
}

impl Log for Lines {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.level() <= Level::Info && about.target().starts_with("ballista")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str().to_ascii_lowercase();
            // Nobody may be there to read it.
            let _ = writeln!(io::stderr(), "{level}: {}", record.args());
        }
    }

    fn flush(&self) {}
}
