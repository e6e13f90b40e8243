//! Every function, misuse, threads, and compatibility with older headers.

use std::collections::BTreeSet;
use std::process::Command;

use wirelane_testkit::process::run;
use wirelane_testkit::tools;

use crate::program::{BUILDS, Program, library, package};

#[track_caller]
fn passes(source: &str, args: impl Fn(&Program) -> Vec<String>) {
    for (compiler, flags) in BUILDS {
        let Some(program) = Program::new(compiler, flags, source) else { continue };
        let args = args(&program);
        run(&mut program.command(args.iter().map(String::as_str)));
    }
}

#[test]
fn every_misuse_is_an_error() {
    passes("tests/c/misuse.c", |_| Vec::new());
}

#[test]
fn packets_are_made_changed_written_and_read() {
    passes("tests/c/values.c", |program| {
        vec![program.directory.path().join("out.pcapng").display().to_string()]
    });
}

#[test]
fn threads_share_ports_and_are_refused_elsewhere() {
    passes("tests/c/threads.c", |_| Vec::new());
}

#[test]
fn sizes_and_places_are_those_of_the_first_version() {
    passes("tests/c/abi.c", |_| Vec::new());
}

#[test]
fn the_header_is_cplusplus_too() {
    if !tools::require("g++") {
        return;
    }
    let directory = tempfile::TempDir::new().unwrap();
    let program = directory.path().join("program");
    let package = package();
    let flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"];
    let (library, source) = (library(), package.join("tests/c/plus.cpp"));
    let mut compiler = Command::new("g++");
    compiler.args(flags).arg(&program).arg("-I").arg(package.join("include")).arg(source);
    compiler.arg(&library).arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    run(&mut compiler);
    run(&mut Command::new(&program));
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !tools::require("nm") {
        return;
    }
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    let exported: BTreeSet<&str> = names.collect();
    let header = std::fs::read_to_string(package().join("include/wirelane.h")).unwrap();
    let code: String = header.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let calls = code.match_indices('(').filter_map(|(at, _)| {
        let before = &code[..at];
        let word = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        word.starts_with("wirelane_").then_some(word)
    });
    let comment_ends = code.find("*/").unwrap();
    let declared: BTreeSet<&str> = calls
        .filter(|word| word.as_ptr() as usize > code[comment_ends..].as_ptr() as usize)
        .collect();
    assert!(declared.len() > 50, "{declared:?}");
    assert_eq!(exported, declared);
}
