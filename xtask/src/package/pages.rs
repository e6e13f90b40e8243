//! Manual pages and completions, generated from the command line of the program.

use std::fs;
use std::io;
use std::path::Path;

use clap_complete::{Shell, generate_to};

/// Writes a manual page of the program and of each subcommand to `directory`. The page of
/// `wirelane bench` is the page of the program behind it.
pub(super) fn manual(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(wirelane_cli::command(), directory)?;
    let page = directory.join("wirelane-bench.1");
    let mut file = fs::File::create(page)?;
    clap_mangen::Man::new(wirelane_bench::command()).render(&mut file)
}

/// Writes the completions for bash, zsh and fish to `directory`.
pub(super) fn completions(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut command = wirelane_cli::command().disable_help_subcommand(true);
        generate_to(shell, &mut command, "wirelane", directory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use clap::Command;
    use tempfile::tempdir;
    use wirelane_testkit::tools;

    use super::*;

    /// The names of the manual pages of a command and its subcommands, without a suffix.
    fn names(command: &Command) -> Vec<String> {
        let of = |one: &Command| {
            let below = names(one).into_iter();
            below.map(|name| format!("{}-{name}", command.get_name())).collect()
        };
        let visible = command.get_subcommands().filter(|one| !one.is_hide_set());
        let below: Vec<Vec<String>> = visible.map(of).collect();
        std::iter::once(command.get_name().to_owned()).chain(below.concat()).collect()
    }

    #[test]
    fn every_subcommand_has_a_page_without_a_warning() {
        let directory = tempdir().unwrap();
        manual(directory.path()).unwrap();
        let mut command = wirelane_cli::command().disable_help_subcommand(true);
        command.build();
        let names = names(&command);
        assert!(names.len() > 25 && names.contains(&"wirelane-lab-status".into()), "{names:?}");
        for name in names {
            let page = directory.path().join(format!("{name}.1"));
            let text = fs::read_to_string(&page).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}");
            if tools::find("man").is_some() {
                let mut man = Process::new("man");
                man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&page);
                let said = man.env("MANROFFSEQ", "").env("MANWIDTH", "80").output().unwrap();
                let warnings = String::from_utf8_lossy(&said.stderr).into_owned();
                assert!(said.status.success() && warnings.is_empty(), "{name}: {warnings}");
            }
        }
    }

    #[test]
    fn completions_parse() {
        let directory = tempdir().unwrap();
        completions(directory.path()).unwrap();
        for (shell, file) in
            [("bash", "wirelane.bash"), ("zsh", "_wirelane"), ("fish", "wirelane.fish")]
        {
            let path = directory.path().join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains("capture") && text.contains("record"), "{file}");
            if tools::find(shell).is_some() {
                let parsed = Process::new(shell).arg("-n").arg(&path).output().unwrap();
                assert!(parsed.status.success(), "{file}: {parsed:?}");
            }
        }
    }
}
