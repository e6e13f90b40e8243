//! The programs and libraries of the packages, and static programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{Package, VERSION};
use crate::cargo;
use crate::context::target_directory;
use crate::setup;
use crate::step::Outcome;
use crate::targets;

/// Crates with programs and libraries that need no special linker options.
const CRATES: [&str; 4] = ["wirelane-cli", "wirelane-bench", "wirelane-libpcap", "wirelane-query"];

/// The name by which programs ask for `libwirelane`, as cargo-c makes it: before 1.0.0, minor
/// versions are incompatible.
pub(super) const SONAME: &str = "libwirelane.so.0.1";

/// A static program for one architecture.
struct Static {
    target: &'static str,
    /// The C compiler, which also links; C is in zstd only.
    compiler: &'static str,
    /// The Debian packages of the compiler.
    packages: &'static [&'static str],
}

const STATICS: [Static; 2] = [
    Static { target: "x86_64-unknown-linux-musl", compiler: "musl-gcc", packages: &["musl-tools"] },
    // zstd uses no function of the C library whose interface differs from musl's.
    Static {
        target: "aarch64-unknown-linux-musl",
        compiler: "aarch64-linux-gnu-gcc",
        packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
    },
];

/// Builds the dynamic programs and the libraries.
pub(super) fn run(package: &Package) -> Outcome {
    let mut build = cargo::stable(&["build", "--release", "--locked"]);
    for name in CRATES.iter().filter(|name| package.has(name)) {
        build.args(["-p", name]);
    }
    let mut outcome = Outcome::single(cargo::succeeds(&mut build));
    let library = ["rustc", "--release", "--locked", "-p", "wirelane-capi", "--lib"];
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
        if setup::find(self.compiler).is_none() {
            setup::install(&package.context, self.packages);
        }
        if setup::find(self.compiler).is_none() {
            let packages = self.packages.join(" ");
            return package.context.unavailable(1, format!("needs the Debian packages {packages}"));
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
            Ok(_) => Outcome::single(true),
            Err(error) => Outcome::failure(error),
        }
    }

    /// Packs the program, its pages and the licences: `wirelane-VERSION-TARGET.tar.zst`.
    fn pack(&self, package: &Package, program: &Path) -> Result<PathBuf, String> {
        let name = format!("wirelane-{VERSION}-{}", self.target);
        let tree = package.stage.with_file_name("static").join(&name);
        let failed = |error| format!("{}: {error}", tree.display());
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir_all(&tree).map_err(failed)?;
        fs::copy(program, tree.join("wirelane")).map_err(failed)?;
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
            fs::copy(crate::context::root().join(file), tree.join(file)).map_err(failed)?;
        }
        let copy = |from: &str| {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(package.stage.join(from)).arg(&tree);
            cargo::succeeds(&mut copy)
        };
        let archive = package.dist.join(format!("{name}.tar.zst"));
        let mut tar = Command::new("tar");
        // The same input makes the same archive.
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"])
            .args(["--use-compress-program=zstd -19 -q", "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(tree.parent().unwrap_or(&tree))
            .arg(&name);
        let packed = copy("man") && copy("completions") && cargo::succeeds(&mut tar);
        packed.then_some(archive).ok_or_else(|| format!("{name} cannot be packed"))
    }
}
