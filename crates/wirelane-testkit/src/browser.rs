//! A page in a browser.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::ChildGuard;
use crate::tools;

/// The complaints of Chromium about the page in a file, as it prints them on its console.
///
/// # Panics
/// Chromium is missing, fails, or shows no page.
pub fn complaints(page: &Path) -> Vec<String> {
    let profile = tempfile::tempdir().expect("a directory for the profile");
    let mut command = Command::new(tools::find("chromium").expect("Chromium"));
    command.args(["--headless", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]);
    // Tests run as root, where it has no sandbox. The page is our own.
    command.args(["--no-sandbox", "--disable-dev-shm-usage", "--allow-file-access-from-files"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("file://{}", page.display()));
    let output = ChildGuard::spawn(&mut command).wait(Duration::from_secs(120));
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.contains("</html>"), "{output:?}");
    output.stderr.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect()
}
