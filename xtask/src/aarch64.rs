//! The step `aarch64`: lints for the other architecture, and machine code of filters on it,
//! emulated by QEMU.

use crate::cargo;
use crate::context::Context;
use crate::setup;
use crate::step::Outcome;
use crate::targets;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64-static";
/// The directory of the other architecture's libraries on Debian.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// Programs needed in addition to the toolchain, and their Debian packages.
const PROGRAMS: [(&str, &str); 2] =
    [(LINKER, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"), (EMULATOR, "qemu-user-static")];

/// Tests that cannot run are left out with a note, because they do not concern the machine that
/// runs them.
pub(crate) fn run(context: &Context) -> Outcome {
    if context.quick {
        return Outcome::skip("left out by --quick");
    }
    if let Some(missing) = setup::missing(context, &PROGRAMS) {
        return Outcome::skip(missing.note);
    }
    if let Some(outcome) = targets::without(TARGET) {
        return outcome;
    }
    // Only these lints find code that depends on the architecture: `char` in C is signed on some.
    let lints = [
        "clippy",
        "--target",
        TARGET,
        "-p",
        "wirelane-os",
        "-p",
        "wirelane-filter",
        "-p",
        "wirelane",
        "--",
        "-D",
        "warnings",
    ];
    let target = context.target("aarch64");
    if !cargo::succeeds(cargo::stable(&lints).env("CARGO_TARGET_DIR", &target)) {
        return Outcome::failure(format!("lints for {TARGET}"));
    }
    let arguments = ["test", "--target", TARGET, "-p", "wirelane-filter", "--lib", "jit::"];
    let mut command = cargo::stable(&arguments);
    command
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {LIBRARIES}"))
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    let (succeeded, report) = cargo::tests(&mut command);
    report.outcome(succeeded)
}
