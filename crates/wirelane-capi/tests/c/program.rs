//! Programs in C that use the library of this build.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use wirelane_testkit::{c, tools};

/// The compilers, each without a sanitizer and with AddressSanitizer.
pub(crate) const BUILDS: [(&str, &[&str]); 4] = [
    ("gcc", &[]),
    ("clang", &[]),
    ("gcc", &["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]),
    ("clang", &["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]),
];

/// A compiled program, removed with its directory.
pub(crate) struct Program {
    pub(crate) directory: TempDir,
    path: PathBuf,
}

impl Program {
    /// Compiles `source`, a path from the directory of the package on. `None` without the compiler.
    #[track_caller]
    pub(crate) fn new(compiler: &str, flags: &[&str], source: &str) -> Option<Self> {
        if !tools::require(compiler) {
            return None;
        }
        let directory = TempDir::new().unwrap();
        let (path, package) = (directory.path().join("program"), package());
        let mut args: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        args.push("-pedantic".to_owned());
        args.push(format!("-I{}", package.join("include").display()));
        args.push(package.join(source).display().to_string());
        args.push(library().display().to_string());
        args.push(format!("-Wl,-rpath,{}", library().parent().unwrap().display()));
        c::compile(compiler, &path, args);
        Some(Self { directory, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args);
        command
    }
}

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that cargo builds with the tests of its package, in the same directory.
pub(crate) fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libwirelane_capi.so");
    assert!(library.is_file(), "{}: cargo build -p wirelane-capi", library.display());
    library
}
