//! One entry for automation: `cargo xtask test`, `cargo xtask bench`, `cargo xtask book`,
//! `cargo xtask package`, `cargo xtask vm`.
#![allow(clippy::print_stdout, reason = "talking to the terminal is what this program is for")]

mod aarch64;
mod api;
mod apt;
mod background;
mod bench;
mod book;
mod cargo;
mod context;
mod deny;
mod features;
mod files;
mod first_build;
mod fuzz;
mod libtest;
mod nextest;
mod package;
mod portable;
mod rustdoc;
mod semver;
mod setup;
mod step;
mod targets;
mod test;
mod unpacked;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

fn main() -> ExitCode {
    match Arguments::parse().command {
        Task::Test(arguments) => test::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Book(arguments) => book::run(&arguments),
        Task::Vm(arguments) => vm::run(&arguments),
        Task::Package(arguments) => package::run(&arguments),
    }
}

/// Automation of the Wirelane workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all tests and checks; install what they need, or say what is missing
    Test(test::Arguments),
    /// Measure what the documentation promises, beside other programs in the same run
    Bench(bench::Arguments),
    /// Build the documentation as a book: target/book
    Book(book::Arguments),
    /// Run the tests of zero copy in an emulated machine with two igb and two virtio_net
    Vm(vm::Arguments),
    /// Build the packages for Debian and Red Hat, static programs, bills of materials and checksums
    Package(package::Arguments),
}
