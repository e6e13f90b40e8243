//! The page in a browser: it complains of nothing, and fits on a phone.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::tools;

/// Loads `page` into a frame of each of these widths, and reports what does not fit as an error of
/// the console: the browser itself does not become narrower than a small tablet.
const FRAMES: &str = r#"<!DOCTYPE html><link rel="icon" href="data:,">
<iframe src="index.html" style="width: 390px; height: 800px; border: 0"></iframe>
<iframe src="index.html" style="width: 1200px; height: 800px; border: 0"></iframe>
<script>
  addEventListener("load", () => {
    for (const frame of document.querySelectorAll("iframe")) {
      const page = frame.contentDocument.documentElement;
      const ends = page.scrollWidth, room = frame.clientWidth;
      if (ends > room) console.error(`the page is ${ends} wide where there is room for ${room}`);
      if (!frame.contentDocument.querySelector("table, svg")) console.error("the page is empty");
    }
    document.title = "looked at";
  });
</script>"#;

/// What Chromium says about a file, on its console.
fn complaints(page: &Path) -> Vec<String> {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(tools::find("chromium").unwrap());
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

/// Of the report in `out`, whose page is changed.
pub(super) fn opens_without_an_error(out: &Path) {
    if !tools::require("chromium") {
        return;
    }
    assert_eq!(complaints(&out.join("index.html")), [""; 0]);
    fs::write(out.join("frames.html"), FRAMES).unwrap();
    assert_eq!(complaints(&out.join("frames.html")), [""; 0]);
    // The test would notice: a table that does not fit, a script that fails.
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    let wide =
        page.replace("</h1>", "<pre style='width: 2000px'>wide</pre><script>x.y()</script></h1>");
    fs::write(out.join("index.html"), wide).unwrap();
    let found = complaints(&out.join("frames.html")).join("\n");
    assert!(found.contains("room for 390") && found.contains("room for 1200"), "{found}");
    assert!(found.contains("x is not defined"), "{found}");
}
