//! `wirelane ports`: what can be named as a port, and the options of each kind.

use std::fmt::Write as _;

use clap::Args;
use clap::builder::PossibleValuesParser;
use wirelane::Error;
use wirelane::internal::port::{BackendHelp, SpecOption};
use wirelane::port::Backend;

use crate::output::{self, screen};

/// List the kinds of ports and their options.
///
/// A port is an interface opened through a backend. Options follow its name:
/// xdp:eth0?mode=native&frames=32k.
#[derive(Args, Clone, Debug)]
pub(crate) struct PortsArgs {
    /// Show the options of this backend: sim, file, packet, xdp or tap
    #[arg(value_name = "BACKEND", value_parser = PossibleValuesParser::new(Backend::ALL.map(Backend::as_str)), hide_possible_values = true)]
    backend: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The answer cannot be written.
pub(crate) fn run(args: &PortsArgs) -> Result<(), Error> {
    let named = Backend::ALL.into_iter().find(|one| args.backend.as_deref() == Some(one.as_str()));
    let text = named.map_or_else(overview, |backend| details(&backend.help()));
    output::print(&text)
}

/// All kinds of ports, and their common options.
fn overview() -> String {
    let mut text = String::from(
        "[backend:]NAME[@QUEUES][?option=value&…], such as xdp:eth0@0-3,6?mode=native&spin=on\n\n",
    );
    let kinds = Backend::ALL.map(Backend::help);
    for kind in &kinds {
        let needs = kind.needs.map_or_else(String::new, |needs| format!("; needs {needs}"));
        entry(&mut text, kind.form, &format!("{}{needs}", kind.about));
    }
    entry(
        &mut text,
        "IF",
        "packet:IF; with `forward --all`, xdp:IF where the interface supports it",
    );
    text.push_str("\nOptions of every port (`wirelane ports BACKEND` for the others):\n\n");
    SpecOption::common().iter().for_each(|one| option(&mut text, one));
    text
}

/// One kind with its options.
fn details(kind: &BackendHelp) -> String {
    let mut text = format!("{}[@QUEUES][?option=value&…]\n\n", kind.form);
    let needs = kind.needs.map_or_else(String::new, |needs| format!(" Needs {needs}."));
    indented(&mut text, 0, &format!("{}.{needs}", kind.about));
    text.push_str("\nOptions:\n\n");
    kind.options.iter().for_each(|one| option(&mut text, one));
    text
}

fn option(text: &mut String, option: &SpecOption) {
    let SpecOption { key, values, default, meaning } = option;
    entry(text, &format!("{key}=<{values}>"), &format!("{meaning} [default: {default}]"));
}

/// A line, and its meaning, indented further.
fn entry(text: &mut String, head: &str, meaning: &str) {
    let _ = writeln!(text, "  {head}");
    indented(text, 10, meaning);
}

/// Wraps text to the width of a command's help, or to a narrower terminal, and indents it.
fn indented(text: &mut String, indent: usize, words: &str) {
    let columns = screen::width_of_output().map_or(100, |columns| columns.min(100));
    for line in output::wrap(words, columns.saturating_sub(indent)) {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let mut text = String::new();
        indented(&mut text, 2, "word ".repeat(40).trim_end());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.iter().all(|line| line.starts_with("  word") && line.len() <= 100), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
    }

    #[test]
    fn every_kind_and_option_is_there() {
        let overview = overview();
        for backend in Backend::ALL {
            let help = backend.help();
            assert!(overview.contains(help.form) && overview.contains(backend.as_str()));
            let details = details(&help);
            for option in &help.options {
                assert!(details.contains(&format!("  {}=<", option.key)), "{details}");
            }
        }
        assert!(overview.contains("  gso_max=<576 to 65535>\n"), "{overview}");
    }
}
