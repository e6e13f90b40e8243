//! Loads a page in a browser.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::ChildGuard;
use crate::tools;

/// The messages that Chromium prints on its console about the page in a file.
///
/// # Panics
/// Chromium is missing, fails, or shows no page.
pub fn complaints(page: &Path) -> Vec<String> {
    let profile = tempfile::tempdir().expect("a directory for the profile");
    let mut command = Command::new(tools::find("chromium").expect("Chromium"));
    command.args(["--headless", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]);
    // Tests run as root, where Chromium has no sandbox. The page is trusted: the project made it.
    command.args(["--no-sandbox", "--disable-dev-shm-usage", "--allow-file-access-from-files"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("file://{}", page.display()));
    let output = ChildGuard::spawn(&mut command).wait(Duration::from_secs(120));
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.contains("</html>"), "{output:?}");
    output.stderr.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect()
}
