//! Programs that tests run without an installation: their packages are unpacked in the target
//! directory.
//!
//! Installing a package with a service starts the service, and packages of another release cannot
//! be installed. A program of another release is unpacked with all its dependencies, including the
//! C library.

use std::path::Path;
use std::process::Command;

use crate::apt::{Apt, Scratch, unpack};
use crate::cargo::run;
use crate::context::Context;
use crate::files::{create, list};
use crate::step::Outcome;

/// Packages that are unpacked into one directory.
struct Tree {
    /// The name of the directory.
    name: &'static str,
    /// A release of Debian; `None` for the machine's own release.
    suite: Option<&'static str>,
    packages: &'static [&'static str],
    programs: &'static [&'static str],
}

/// `wirelane_testkit::installed` searches these trees.
const TREES: [Tree; 2] = [
    Tree {
        name: "debian",
        suite: None,
        packages: &["argus-server", "argus-client", "nfdump", "pmacct", "softflowd", "arpwatch"],
        programs: &[
            "argus",
            "ra",
            "nfpcapd",
            "nfcapd",
            "nfdump",
            "nfacctd",
            "softflowd",
            "softflowctl",
            "arpwatch",
        ],
    },
    Tree {
        name: "trixie",
        suite: Some("trixie"),
        packages: &["suricata"],
        programs: &["suricata"],
    },
];

/// Unpacks missing trees. `find` looks for an installed program.
pub(crate) fn run_setup(context: &Context, find: impl Fn(&str) -> bool) -> Outcome {
    let cache = context.target("unpacked");
    let mut outcome = Outcome::default();
    for tree in &TREES {
        let root = cache.join(tree.name);
        let missing = || tree.programs.iter().find(|name| !find(name) && !is_in(&root, name));
        let failure = match missing() {
            Some(_) => tree.unpack(&cache).err(),
            None => None,
        };
        outcome += match missing() {
            None => Outcome::single(true),
            Some(program) => {
                let reason = failure.unwrap_or_else(|| "its package does not hold it".to_owned());
                context.unavailable(1, format!("missing: {program}: {reason}"))
            }
        };
    }
    outcome += captures(context, &cache);
    outcome
}

/// The captures of tcpdump's own tests: `crates/wirelane-print/tests/tcpdump.rs` prints them.
fn captures(context: &Context, cache: &Path) -> Outcome {
    let root = cache.join("tcpdump");
    let failure = if root.join("tests").is_dir() { None } else { unpack_source(cache).err() };
    match failure {
        None => Outcome::single(true),
        Some(reason) => {
            context.unavailable(1, format!("missing: tcpdump's source package: {reason}"))
        }
    }
}

fn unpack_source(cache: &Path) -> Result<(), String> {
    create(cache)?;
    let scratch = Scratch::new(cache, "tcpdump")?;
    let apt = Apt::of_sources(&scratch.0, "bookworm")?;
    let packages = scratch.0.join("packages");
    let root = scratch.0.join("root");
    create(&packages)?;
    create(&root)?;
    run(&mut apt.source(&packages, "tcpdump"))?;
    let archive =
        list(&packages).into_iter().find(|path| path.to_string_lossy().ends_with(".orig.tar.gz"));
    let archive = archive.ok_or("it has no archive")?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(&root).args([
        "--strip-components=1",
        "--wildcards",
        "*/tests",
    ]);
    run(&mut tar)?;
    scratch.keep("root", &cache.join("tcpdump"))
}

impl Tree {
    fn unpack(&self, cache: &Path) -> Result<(), String> {
        create(cache)?;
        let scratch = Scratch::new(cache, self.name)?;
        let apt = match self.suite {
            Some(suite) => Apt::of_suite(&scratch.0, suite)?,
            None => Apt::of_the_machine(&scratch.0)?,
        };
        let packages = scratch.0.join("packages");
        create(&packages.join("partial"))?;
        run(&mut apt.download(&packages, self.packages))?;
        let root = scratch.0.join("root");
        unpack(&packages, &root)?;
        // Some packages restrict the access to the directories of their services.
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&root))?;
        scratch.keep("root", &cache.join(self.name))
    }
}

fn is_in(root: &Path, program: &str) -> bool {
    ["usr/bin", "usr/sbin"].iter().any(|directory| root.join(directory).join(program).is_file())
}
