//! `-f`: captured and counted packets, and the position of an error.

use tempfile::tempdir;

use super::*;

#[test]
fn a_filter_takes_what_matches_and_the_books_balance() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let port = "sim:2?count=6000&proto=mix&seed=3";
    let tcp = capture(&[port, "-f", "tcp", "-w", file.to_str().unwrap()]);
    let rest = capture(&[port, "-f", "not tcp"]);
    let total = |summary: &Value, key: &str| summary["totals"][key].as_u64().unwrap();
    assert_eq!(total(&tcp, "received"), 6000);
    assert_eq!(total(&tcp, "delivered") + total(&tcp, "filtered"), 6000);
    assert_eq!(total(&tcp, "written"), total(&tcp, "delivered"));
    assert_eq!(total(&tcp, "delivered"), total(&rest, "filtered"));
    // The same from the file, and with a program in place of the expression.
    let again = format!("file:{}", file.display());
    let again = capture(&[&again, "-f", "tcp"]);
    assert_eq!(total(&again, "delivered"), total(&tcp, "delivered"));
    let program = "6,40 0 0 12,21 0 3 2048,48 0 0 23,21 0 1 6,6 0 0 65535,6 0 0 0";
    let program = capture(&[port, "-f", program]);
    assert_eq!(total(&program, "delivered"), total(&tcp, "delivered"));
}

#[test]
fn a_wrong_expression_shows_the_place() {
    let failed = output(&mut wirelane(["capture", "sim:1?count=1", "-f", "tcp and prot 80"]));
    let text = failed.stderr.clone();
    assert!(text.contains("tcp and prot 80\n        ^~~~\n"), "{text}");
    assert!(text.contains("syntax error") && text.contains("at \"prot\" (column 9)"), "{text}");
}
