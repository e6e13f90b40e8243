//! `cargo xtask package` makes the packages in `target/package/dist`.
//!
//! All packages have the version of the workspace. `packaging/` and the manifests of the crates
//! (`[package.metadata.deb]`, `[package.metadata.generate-rpm]`) define their content.

mod build;
mod check;
mod crates;
mod debian;
mod materials;
mod pages;
mod release;
mod rpm;
mod tool;

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use self::build::{CRATES, Package};
use crate::context::{Context, root};
use crate::files;
use crate::step::{Outcome, Step, summarize};

const STEPS: [Step<Package>; 8] = [
    Step { name: "pages", about: "manual pages and completions", run: stage },
    Step { name: "release", about: "programs and libraries, optimised", run: release::run },
    Step { name: "deb", about: "packages for Debian and Ubuntu", run: debian::run },
    Step { name: "rpm", about: "packages for Fedora and Red Hat", run: rpm::run },
    Step { name: "static", about: "programs that need no library", run: release::run_static },
    Step { name: "sbom", about: "what the programs are made of", run: materials::run },
    Step { name: "crates", about: crates::ABOUT, run: crates::run },
    Step { name: "sums", about: "SHA-256 of all files", run: materials::sums },
];

const CHECK: Step<Package> =
    Step { name: "check", about: "lintian, and installing in clean systems", run: check::run };

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The steps to run, in their usual order; all of them when none is named
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
    /// Leave out a package, such as wirelane-query, which takes half an hour to build
    #[arg(long, value_name = "CRATE", value_parser = CRATES)]
    except: Vec<String>,
    /// Afterwards, check the packages in `target/package/dist`, and install them in clean systems
    /// (as root, with mmdebstrap)
    #[arg(long)]
    check: bool,
    /// Fail if a check cannot run, as with CI=true in the environment
    #[arg(long)]
    ci: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let directory = root().join("target/package");
    let package = Package {
        context: Context::new(false, arguments.ci, None),
        except: arguments.except.clone(),
        stage: directory.join("stage"),
        dist: directory.join("dist"),
    };
    if let Err(error) = fs::create_dir_all(&package.dist) {
        println!("cannot create {}: {error}", package.dist.display());
        return ExitCode::FAILURE;
    }
    let none = arguments.steps.is_empty();
    // `--check` alone checks what is there.
    let all = none && !arguments.check;
    let chosen =
        |step: &&Step<Package>| all || arguments.steps.iter().any(|name| name == step.name);
    let mut done: Vec<_> = STEPS.iter().filter(chosen).map(|step| step.execute(&package)).collect();
    if arguments.check {
        done.push(CHECK.execute(&package));
    }
    if summarize(done) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes what packages contain in addition to programs.
fn stage(package: &Package) -> Outcome {
    Outcome::single(stage_all(&package.stage).inspect_err(|error| println!("{error}")).is_ok())
}

fn stage_all(stage: &Path) -> io::Result<()> {
    // Pages of removed subcommands must not stay.
    files::remove(stage)?;
    pages::manual(&stage.join("man"))?;
    pages::completions(&stage.join("completions"))?;
    debian::stage(stage)
}
