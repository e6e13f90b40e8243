//! The programs and libraries of the packages, and static programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::build::{CAPI, Package, VERSION};
use crate::cargo;
use crate::context::target_directory;
use crate::files;
use crate::setup;
use crate::step::Outcome;
use crate::targets;

/// The name by which programs ask for `libwirelane`, as cargo-c makes it: before 1.0.0, minor
/// versions are incompatible.
pub(super) const SONAME: &str = "libwirelane.so.0.1";

/// A static program for one architecture.
struct Static {
    target: &'static str,
    /// The C compiler, which also links; C is in zstd only.
    compiler: &'static str,
    /// The Debian packages of the compiler.
    packages: &'static str,
}

const STATICS: [Static; 2] = [
    Static { target: "x86_64-unknown-linux-musl", compiler: "musl-gcc", packages: "musl-tools" },
    // zstd uses no function of the C library whose interface differs from musl's.
    Static {
        target: "aarch64-unknown-linux-musl",
        compiler: "aarch64-linux-gnu-gcc",
        packages: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    },
];

/// Builds the dynamic programs and the libraries.
pub(super) fn run(package: &Package) -> Outcome {
    let mut build = cargo::stable(&["build", "--release", "--locked"]);
    let programs = package.crates().filter(|name| *name != CAPI);
    build.args(programs.flat_map(|name| ["-p", name]));
    let mut outcome = Outcome::single(cargo::succeeds(&mut build));
    if !package.has(CAPI) {
        return outcome;
    }
    let library = ["rustc", "--release", "--locked", "-p", CAPI, "--lib"];
    let mut library = cargo::stable(&library);
    library.args(["--crate-type", "cdylib", "--", "-Cstrip=symbols"]);
    library.arg(format!("-Clink-arg=-Wl,-soname,{SONAME}"));
    outcome += Outcome::single(cargo::succeeds(&mut library));
    outcome
}

/// Builds and packs the static programs.
pub(super) fn run_static(package: &Package) -> Outcome {
    let mut outcome = Outcome::default();
    for program in &STATICS {
        outcome += program.run(package);
    }
    outcome
}

impl Static {
    fn run(&self, package: &Package) -> Outcome {
        let programs = [(self.compiler, self.packages)];
        if let Some(missing) = setup::missing(&package.context, &programs) {
            return package.context.unavailable(1, missing.note);
        }
        if let Some(outcome) = targets::without(self.target) {
            return outcome;
        }
        let variable = self.target.replace('-', "_");
        let mut build = cargo::stable(&["build", "--release", "--locked", "-p", "wirelane-cli"]);
        build.args(["--target", self.target]).env(format!("CC_{variable}"), self.compiler);
        if self.target.starts_with("aarch64") {
            let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
            build.env(linker, self.compiler);
        }
        if !cargo::succeeds(&mut build) {
            return Outcome::failure(format!("no static program for {}", self.target));
        }
        let program = target_directory().join(self.target).join("release/wirelane");
        match self.pack(package, &program) {
            Ok(()) => Outcome::single(true),
            Err(error) => Outcome::failure(error),
        }
    }

    /// Packs the program, its pages and the licences: `wirelane-VERSION-TARGET.tar.zst`.
    fn pack(&self, package: &Package, program: &Path) -> Result<(), String> {
        let name = format!("wirelane-{VERSION}-{}", self.target);
        let tree = package.stage.with_file_name("static").join(&name);
        let failed = |error| format!("{}: {error}", tree.display());
        files::remove(&tree).map_err(failed)?;
        fs::create_dir_all(&tree).map_err(failed)?;
        fs::copy(program, tree.join("wirelane")).map_err(failed)?;
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
            fs::copy(crate::context::root().join(file), tree.join(file)).map_err(failed)?;
        }
        let copy = |from: &str| {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(package.stage.join(from)).arg(&tree);
            cargo::run(&mut copy)
        };
        copy("man")?;
        copy("completions")?;
        package.pack(&tree, "zstd -19 -q").map(drop)
    }
}
