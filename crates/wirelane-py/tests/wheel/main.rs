//! Builds the wheel with maturin, installs it into an empty environment, and runs its tests there.
//!
//! The tests are in `tests/python` and use pytest. This program prepares an environment with
//! maturin, which remains in `target`, and a new one for the wheel. Both install packages from
//! PyPI.
#![allow(clippy::unwrap_used)]

mod environment;
mod store;

use std::path::{Path, PathBuf};
use std::process::Command;

use environment::{Environment, succeed};
use tempfile::TempDir;

/// The packages that the tests import, besides the wheel.
const PACKAGES: [&str; 7] = ["pytest", "pyarrow", "polars", "duckdb", "pandas", "scapy", "mypy"];

#[test]
fn the_wheel_passes_its_tests_in_an_empty_environment() {
    let Some(tools) = Environment::of_tools(&target().join("python")) else { return };
    let directory = TempDir::new().unwrap();
    let wheel = build(&tools, directory.path());
    let empty = Environment::new(&directory.path().join("environment"));

    // The wheel works without any other package.
    empty.install(&[wheel.to_str().unwrap()]);
    let code = "import wirelane; print(sum(map(len, wirelane.open('sim:2', count=1000))))";
    let counted = succeed(empty.python().args(["-I", "-c", code]));
    assert_eq!(counted.trim(), "1000");

    empty.install(&PACKAGES);
    let tests = package().join("tests/python");
    let mut pytest = empty.python();
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5"]).arg(tests);
    pytest.env("WIRELANE_TEST_STORE", store::write(&directory.path().join("store")));
    eprintln!("{}", succeed(pytest.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(&directory)));
}

/// Builds the wheel with the same profile as the tests, so that both share compiled crates.
fn build(tools: &Environment, out: &Path) -> PathBuf {
    let mut maturin = Command::new(tools.program("maturin"));
    maturin.args(["build", "--quiet", "--locked", "--out"]).arg(out);
    maturin.arg("--manifest-path").arg(package().join("Cargo.toml"));
    maturin.arg("--interpreter").arg(tools.program("python3"));
    if !cfg!(debug_assertions) {
        maturin.arg("--release");
    }
    succeed(maturin.env("CARGO_TARGET_DIR", target()));
    let files = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let wheels: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == "whl")).collect();
    let [wheel] = &wheels[..] else { panic!("one wheel: {wheels:?}") };
    let name = wheel.file_name().unwrap().to_str().unwrap();
    // For every version of Python from 3.11 on.
    assert!(name.contains("-cp311-abi3-"), "{name}");
    wheel.clone()
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The target directory of cargo: this program is in its `debug/deps` or `release/deps`.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}
