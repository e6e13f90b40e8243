//! The page of a measurement: whole, and readable on a phone.

use std::fs;

use wirelane_testkit::browser::complaints;
use wirelane_testkit::process::output;
use wirelane_testkit::{privileged, tools};

use super::middle::Middle;
use super::shared::WIRELANE;

/// Loads the page into frames of a phone's and a screen's width, and reports content that does not
/// fit.
const FRAMES: &str = r#"<!DOCTYPE html><link rel="icon" href="data:,">
<iframe src="page.html" style="width: 390px; height: 800px; border: 0"></iframe>
<iframe src="page.html" style="width: 1280px; height: 800px; border: 0"></iframe>
<script>
  addEventListener("load", () => {
    for (const frame of document.querySelectorAll("iframe")) {
      const page = frame.contentDocument.documentElement;
      const ends = page.scrollWidth, room = frame.clientWidth;
      if (ends > room) console.error(`the page is ${ends} wide where there is room for ${room}`);
      const plots = frame.contentDocument.querySelectorAll("svg polyline").length;
      if (plots < 5) console.error(`only ${plots} lines are plotted`);
    }
  });
</script>"#;

#[test]
fn privileged_the_page_has_plots_and_fits() {
    if !privileged::require() || !tools::require("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let middle = Middle::new();
    middle.bridge();
    let args = "ndr a0 a1 --quick --duration 100ms --sizes 64,512 --max-rate 5kpps \
                --tests throughput,latency,loss,burst --precision 20% --page";
    let mut command = middle.tester.command(WIRELANE);
    let ended = output(command.args(args.split_whitespace()).arg(&page));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for words in ["a0 ⇄ a1: ", "pps each way without loss", "latency p50", "a burst of"] {
        assert!(ended.stderr.contains(words), "{words:?} is not in {}", ended.stderr);
    }
    let text = fs::read_to_string(&page).unwrap();
    for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
    fs::write(folder.path().join("frames.html"), FRAMES).unwrap();
    assert_eq!(complaints(&folder.path().join("frames.html")), [""; 0]);
}
