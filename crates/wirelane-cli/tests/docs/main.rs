//! Every command line of the READMEs and of `docs/` runs as printed.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod document;
mod engineers;
mod links;
mod width;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use tempfile::tempdir_in;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::{copy_program, output};
use wirelane_testkit::{privileged, tools};

use self::document::{Block, blocks, documents};

/// How many blocks run at a time: most of their time they wait.
const WORKERS: usize = 4;

/// Programs that cannot, or need not, run here, as scripts.
const SCRIPTS: [(&str, &str); 3] = [
    ("sudo", "exec \"$@\""),
    ("wireshark", "trap '' INT; exec cat >/dev/null"),
    // The command is built already.
    ("cargo", "while [ \"$1\" != -- ]; do shift; done; shift; exec wirelane \"$@\""),
];

/// A refused connection shows that packets pass both ways: no socket listens on that port.
const PING: &str = "bash -c \": </dev/tcp/$1/9\" 2>&1 | grep -q refused";

#[test]
fn documents_are_well_formed() {
    let (root, paths) = documents();
    for path in &paths {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let (_, problems) = blocks(&name, &text);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "the README is a landing page");
}

#[test]
fn privileged_every_command_line_runs() {
    if !privileged::require() || !["tcpdump", "zstd", "ethtool"].iter().all(|it| tools::require(it))
    {
        return;
    }
    let directory = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let programs = directory.path().join("bin");
    fs::create_dir(&programs).unwrap();
    copy_program(Path::new(env!("CARGO_BIN_EXE_wirelane")), &programs.join("wirelane"));
    let bench = Path::new(env!("CARGO_BIN_EXE_wirelane")).with_file_name("wirelane-bench");
    assert!(bench.is_file(), "no {}: cargo build -p wirelane-bench", bench.display());
    copy_program(&bench, &programs.join("wirelane-bench"));
    copy_program(&Library::Ours.file(), &programs.join("libwirelane_libpcap.so"));
    for (name, script) in SCRIPTS {
        write_script(&programs.join(name), script);
    }
    if !output(Command::new("which").arg("ping")).status.success() {
        write_script(&programs.join("ping"), PING);
    }
    let (root, paths) = documents();
    let mut all = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        all.extend(blocks(&name, &text).0.into_iter().filter(|block| block.skip.is_none()));
    }
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(block) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let place = tempdir_in(directory.path()).unwrap();
                    let failed = run(block, place.path(), &programs);
                    failures.lock().unwrap().extend(failed);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let count: usize = all.iter().map(|block| block.commands.len()).sum();
    assert!(count > 100, "only {count} command lines were found");
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/bash\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the lines of a block in private namespaces, which end with it. Returns the failures.
fn run(block: &Block, place: &Path, programs: &Path) -> Vec<String> {
    let begin = Instant::now();
    let mut script = String::from(include_str!("block.sh"));
    if let Some(process) = &block.process {
        fs::write(place.join("process.sh"), format!("exec {process}")).unwrap();
        script += "attend process\n";
    }
    for (index, command) in block.commands.iter().enumerate() {
        let text = command.text.split('#').next().unwrap().trim_end();
        let (text, how) = match text.strip_suffix('&') {
            Some(text) => (text, "attend"),
            None => (command.text.as_str(), "run"),
        };
        fs::write(place.join(format!("{index}.sh")), text).unwrap();
        script += &format!("{how} {index}\n");
    }
    script += "finish\n";
    let mut command = Command::new("unshare");
    command.args(["-mnpf", "--mount-proc", "--kill-child", "bash", "-c", &script]);
    let ended = output(command.current_dir(place).env("PROGRAMS", programs).env_remove("SUDO_UID"));
    let took = ended.stdout.trim_end().replace('\n', ", ");
    eprintln!("{} of {}: {took}", begin.elapsed().as_secs(), block.document);
    let mut failures = Vec::new();
    let lines = block.commands.iter().map(|command| (command.number, command.text.as_str()));
    let process = block.process.iter().map(|text| (0, text.as_str()));
    let names = (0..block.commands.len()).map(|index| index.to_string());
    let names = names.chain(["process".to_owned()]);
    for (name, (number, text)) in names
        .zip(lines.map(Some).chain([None]))
        .map(|(name, line)| (name, line.or(process.clone().next())))
        .filter_map(|(name, line)| Some((name, line?)))
    {
        let read = |end: &str| {
            let bytes = fs::read(place.join(format!("{name}.{end}"))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (status, said) = (read("status"), read("err"));
        let is_error = |line: &str| line.starts_with("wirelane: ") || line.contains("panicked at");
        if status.trim() != "0" || said.lines().any(is_error) {
            failures.push(format!(
                "{}:{number}: {text}\n  status {}: {said}{}{}",
                block.document,
                status.trim(),
                ended.stdout,
                ended.stderr
            ));
        }
    }
    failures
}
