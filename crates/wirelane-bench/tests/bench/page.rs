//! Opens the page in a browser: it has no errors, and fits on a phone.

use std::fs;
use std::path::Path;

use wirelane_testkit::browser::complaints;
use wirelane_testkit::tools;

/// Loads `page` into a frame of each of these widths, and reports overflow as an error of the
/// console. The window of the browser cannot be narrower than a small tablet.
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

/// Checks the page of the report in `out`, and then changes it.
pub(super) fn opens_without_an_error(out: &Path) {
    if !tools::require("chromium") {
        return;
    }
    assert_eq!(complaints(&out.join("index.html")), [""; 0]);
    fs::write(out.join("frames.html"), FRAMES).unwrap();
    assert_eq!(complaints(&out.join("frames.html")), [""; 0]);
    // The test detects a table that does not fit and a script that fails.
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    let wide =
        page.replace("</h1>", "<pre style='width: 2000px'>wide</pre><script>x.y()</script></h1>");
    fs::write(out.join("index.html"), wide).unwrap();
    let found = complaints(&out.join("frames.html")).join("\n");
    assert!(found.contains("room for 390") && found.contains("room for 1200"), "{found}");
    assert!(found.contains("x is not defined"), "{found}");
}
