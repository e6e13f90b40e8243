//! Python environments with packages from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;

use wirelane_testkit::tools;

/// The build tool of the wheel.
const MATURIN: &str = "maturin>=1.9,<2";

/// A virtual environment of Python, by its directory.
pub(crate) struct Environment(PathBuf);

impl Environment {
    /// An environment with maturin, which remains in `directory` for later runs. Without Python or
    /// access to PyPI it reports that the test is skipped and returns `None`, or panics if
    /// `WIRELANE_REQUIRE_TOOLS=1`.
    #[track_caller]
    pub(crate) fn of_tools(directory: &Path) -> Option<Self> {
        if !tools::require("python3") {
            return None;
        }
        let tools = Self(directory.join("tools"));
        if tools.program("maturin").is_file() {
            return Some(tools);
        }
        let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&tools.0).output();
        let made = made.is_ok_and(|output| output.status.success());
        let installed = made && tools.pip(&[MATURIN]).output().is_ok_and(|it| it.status.success());
        if installed {
            return Some(tools);
        }
        let required = std::env::var("WIRELANE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        let why = "needs venv of Python, and maturin from PyPI";
        assert!(!required, "{why}, and WIRELANE_REQUIRE_TOOLS=1");
        eprintln!("skipped: {why}");
        None
    }

    /// Creates an environment that contains only pip.
    pub(crate) fn new(path: &Path) -> Self {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(path));
        Self(path.to_owned())
    }

    /// Installs packages or wheels.
    pub(crate) fn install(&self, packages: &[&str]) {
        succeed(&mut self.pip(packages));
    }

    fn pip(&self, packages: &[&str]) -> Command {
        let mut pip = self.python();
        // Python compiles modules when a program imports them; the tests never import most of them.
        pip.args(["-m", "pip", "install", "--quiet", "--no-compile"]).args(packages);
        pip
    }

    pub(crate) fn python(&self) -> Command {
        Command::new(self.program("python3"))
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }
}

/// Runs a command, which must succeed, and returns its standard output.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}
