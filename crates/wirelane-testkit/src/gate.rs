//! Shared by the gates: the name of the running test, and the logs of tests that ran or were
//! skipped.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::thread;

/// Whether the environment variable `name` is set to `1`.
pub(crate) fn demanded(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| value == "1")
}

/// The name of the running test.
///
/// nextest passes it in an environment variable, and the test harness names the thread of each test
/// after it. With `--test-threads=1` there is no such thread: then the source line of the caller is
/// used.
pub(crate) fn test_name(caller: &Location<'_>) -> String {
    if let Ok(name) = env::var("NEXTEST_TEST_NAME") {
        return name;
    }
    match thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", caller.file(), caller.line()),
    }
}

/// Reports that a test is skipped, and appends its name to the file that `WIRELANE_SKIP_LOG` names.
///
/// Writes to the standard error stream directly. The harness captures the output of the macros, so
/// a skipped test would look like a passed one.
pub(crate) fn skip(test: &str, reason: &str) {
    // One write call, as below.
    let _ = std::io::stderr().write_all(format!("SKIPPED: {test}: {reason}\n").as_bytes());
    log("WIRELANE_SKIP_LOG", test);
}

/// Appends `line` to the file that the environment variable `variable` names, when it is set.
pub(crate) fn log(variable: &str, line: &str) {
    let Some(path) = env::var_os(variable) else { return };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|error| panic!("cannot open {variable}={}: {error}", path.display()));
    // One write call per line: test processes append to the same file at the same time.
    file.write_all(format!("{line}\n").as_bytes())
        .unwrap_or_else(|error| panic!("cannot write {variable}={}: {error}", path.display()));
}
