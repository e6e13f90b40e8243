//! Programs without the system's libpcap, and programs that have also loaded it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir_in;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::run;
use wirelane_testkit::{c, tools};

/// The program's output with these variables.
fn answers(name: &str, variables: &[(&str, &str)]) -> Option<Vec<String>> {
    tools::require("gcc").then(|| compiled(name, &[], variables))
}

fn compiled(name: &str, options: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let directory = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [program, savefile] = [name, "t.pcap"].map(|name| directory.path().join(name));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surroundings.c");
    let arguments = options.iter().chain(&["-lpcap"]).map(PathBuf::from);
    c::compile("gcc", &program, [source].into_iter().chain(arguments));
    let mut command = Command::new(&program);
    Library::Ours.of(&mut command).arg(&savefile).envs(variables.iter().copied());
    run(&mut command).lines().map(str::to_owned).collect()
}

const READ: [&str; 3] = [
    "path: 50 packets of EN10MB, then -2",
    "stream: 50 packets of EN10MB, then -2",
    "missing: /nonexistent.pcap: No such file or directory",
];

#[test]
fn without_the_systems_library_all_but_expressions_works() {
    let missing = [("WIRELANE_LIBPCAP_REAL", "/nonexistent/libpcap.so")];
    let Some(answers) = answers("without", &missing) else { return };
    assert_eq!(answers[0], "capture: 0");
    let why = "no libpcap of the system: WIRELANE_LIBPCAP_REAL=/nonexistent/libpcap.so: no libpcap is there";
    assert!(
        answers[1].starts_with(&format!("compile: cannot compile expressions: {why}; install"))
    );
    assert_eq!(answers[2..5], READ);
    assert_eq!(answers[5], "dead: none");
    assert!(answers[6].starts_with(&format!("any: {why}; install")), "{}", answers[6]);
}

/// Simulates a system whose libpcap has another name than the drop-in. The program then loads both,
/// and the drop-in gets all calls, also calls within the system's library.
#[test]
fn the_systems_library_calls_itself() {
    let both = [Library::Ours, Library::Stock].map(|it| it.file().display().to_string()).join(":");
    let Some(answers) = answers("twice", &[("LD_PRELOAD", &both)]) else { return };
    assert_eq!(answers[..2], ["capture: 0", "compile: works"]);
    assert_eq!(answers[2..5], READ);
    assert_eq!(answers[5..], ["dead: a handle", "any: a handle"]);
}

/// Memory that one library allocates and another one frees is from one allocator. Otherwise, and
/// for a leak, AddressSanitizer ends the program.
#[test]
fn the_allocator_of_the_program_is_everybodys() {
    if !tools::require("gcc") {
        return;
    }
    let sanitizer = run(Command::new("gcc").arg("-print-file-name=libasan.so"));
    let preload = format!("{}:{}", sanitizer.trim(), Library::Ours.file().display());
    let answers = compiled("allocator", &["-fsanitize=address"], &[("LD_PRELOAD", &preload)]);
    assert_eq!(answers[..2], ["capture: 0", "compile: works"]);
    assert_eq!(answers[2..5], READ);
}

/// The variable names the file, and the drop-in itself is not accepted.
#[test]
fn the_drop_in_is_no_library_of_the_system() {
    let ours = Library::Ours.file().display().to_string();
    let Some(answers) = answers("itself", &[("WIRELANE_LIBPCAP_REAL", &ours)]) else { return };
    assert!(answers[1].contains("no libpcap is there"), "{}", answers[1]);
}
