//! Options in a file.

use tempfile::tempdir;

use super::*;

#[test]
fn options_of_a_file_apply_unless_the_command_line_overrides_them() {
    let directory = tempdir().unwrap();
    let (path, store) = (directory.path().join("x.conf"), directory.path().join("store"));
    let text = "# comment\nquiet\njson\nsnaplen = 70\ncount=9\nsegment = 4M\ncomment = a # b\n";
    fs::write(&path, text).unwrap();
    let record = |options: &[&str]| {
        let mut command = wirelane(["record", "--config", path.to_str().unwrap()]);
        output(command.args(options).args(["sim:1?size=500&count=20", store.to_str().unwrap()]))
    };
    assert_eq!(summary(&record(&[]))["totals"]["delivered"], 9);
    assert_eq!(summary(&record(&["-c", "7"]))["totals"]["delivered"], 7);
    // A wrong line, and a wrong value.
    fs::write(&path, "quiet\nno-such = 1\n").unwrap();
    let refused = record(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("x.conf:2: "), "{}", refused.stderr);
    fs::write(&path, "count = many\n").unwrap();
    let refused = record(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("--count"), "{}", refused.stderr);
}
