//! Starts and ends of the program: by `wirelane`, on a terminal, with a pipe, with ^C.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wirelane_testkit::process::{self, ChildGuard};
use wirelane_testkit::tools;

use super::{query, three_hours};
use crate::made::write;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs for hours.
const ENDLESS: &str = "SELECT count(*) AS n FROM generate_series(1, 1000000) AS a(x), \
    generate_series(1, 1000000) AS b(y) WHERE (x * y) % 1000003 = 7";

fn beside() -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_wirelane-query")).with_file_name("wirelane");
    assert!(path.is_file(), "no {}: cargo build -p wirelane-cli", path.display());
    path
}

#[test]
fn the_command_becomes_the_program() {
    let ended = process::output(Command::new(beside()).args([
        "query",
        "SELECT 6 * 7 AS n",
        "--format",
        "csv",
    ]));
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(ended.stdout, "n\n42\n");
    let ended = process::output(Command::new(beside()).args(["query", "SELEKT 1"]));
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    let ended = process::output(Command::new(beside()).args(["query", "--help"]));
    assert!(ended.stdout.contains("--explain"), "{}", ended.stdout);
    assert!(ended.stdout.contains("Usage: wirelane query ["), "{}", ended.stdout);
}

#[test]
fn a_program_that_is_missing_can_be_installed() {
    let directory = tempfile::tempdir().unwrap();
    let alone = directory.path().join("wirelane");
    process::copy_program(&beside(), &alone);
    let mut command = Command::new(alone);
    command.args(["query", "SELECT 1"]).env("PATH", directory.path());
    let ended = process::output(&mut command);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains("cargo install --path crates/wirelane-query"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_interrupt_ends_it_at_once_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let to = tempfile::tempdir().unwrap();
    let path = to.path().join("answer.csv");
    let words = [ENDLESS, "-w", path.to_str().unwrap()];
    let mut child = ChildGuard::spawn(query(&words, &[]).env("TMPDIR", temporary.path()));
    child.wait_until(LIMIT, |_| fs::read_dir(to.path()).unwrap().count() > 0);
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    child.interrupt();
    let ended = child.wait(LIMIT);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    for directory in [temporary.path(), to.path()] {
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "{}", directory.display());
    }
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let sql = "SELECT value FROM generate_series(1, 100000000)";
    let mut command = query(&[sql, "--format", "csv"], &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "value");
    drop(lines);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{:?}", ended.status);
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[test]
fn a_terminal_gets_a_shell_with_a_history() {
    if !tools::require("script") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (flows, state) = (directory.path().join("flows"), directory.path().join("state"));
    write(&flows, &three_hours());
    let program = env!("CARGO_BIN_EXE_wirelane-query");
    let line = format!("{program} query {}", flows.display());
    let transcript = directory.path().join("transcript");
    let mut command = Command::new("script");
    command.args(["-qec", &line]).arg(&transcript).env("XDG_STATE_HOME", &state);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let typed = ".tables|.schema flows|SELECT count(*) + 1000|AS many|FROM flows;|\
        SELECT bogus FROM flows;|top-talkers;|.queries|.what|.quit";
    // The editor prints this when it is ready. It discards earlier input.
    let ready = "\u{1b}[?2004h";
    let (mut shown, mut bytes) = (String::new(), [0; 4096]);
    for (number, line) in typed.split('|').enumerate() {
        while shown.matches(ready).count() <= number {
            let count = output.read(&mut bytes).unwrap();
            assert!(count > 0, "{shown}");
            shown += &String::from_utf8_lossy(&bytes[..count]);
        }
        writeln!(input, "{line}").unwrap();
    }
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    shown += &String::from_utf8_lossy(&rest);
    assert!(child.wait().unwrap().success(), "{shown}");
    for word in ["1300", "community_id", "bogus", "10.2.0.0", "retransmissions", ".help"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let history = fs::read_to_string(state.join("wirelane/query-history")).unwrap();
    assert!(history.contains("SELECT count(*) + 1000 AS many FROM flows;"), "{history}");
}

/// Text of packets is escaped on a terminal. In a pipe, only CSV has the raw bytes.
#[test]
fn no_answer_commands_the_terminal() {
    if !tools::require("script") {
        return;
    }
    let sql = "SELECT chr(27) || '[2J' || chr(8238) || chr(8203) || 'x' AS a";
    let raw = "\u{1b}[2J\u{202e}\u{200b}x";
    for format in ["csv", "table", "json"] {
        let program = env!("CARGO_BIN_EXE_wirelane-query");
        let line = format!("{program} query \"{sql}\" --format {format}");
        let mut command = Command::new("script");
        let shown = process::output(command.args(["-qec", &line, "/dev/null"]));
        assert!(shown.status.success(), "{}", shown.stdout);
        let hostile = |c: char| wirelane_wire::text::is_hostile(c) && !matches!(c, '\r' | '\n');
        assert!(!shown.stdout.contains(hostile), "{format}: {:?}", shown.stdout);
        let ended = process::output(&mut query(&[sql, "--format", format], &[]));
        assert_eq!(ended.stdout.contains(raw), format == "csv", "{format}: {:?}", ended.stdout);
    }
}

/// The list names every source file that writes to the terminal directly; review a new one.
#[test]
fn every_line_passes_through_one_rule() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let ways = ["println!(", "eprintln!(", " print!(", "stdout()", "stderr()"];
    let known = [
        // Addresses and fixed words.
        "cluster/executor.rs",
        "cluster/scheduler.rs",
        "cluster/system.rs",
        "cluster/log.rs",
        // Errors, which escape what they quote.
        "lib.rs",
        "packets/leftovers.rs",
        "query/mod.rs",
        // Through `wirelane_wire::text`, or figures only.
        "query/answer.rs",
        "query/output/escaped.rs",
        "query/output/target.rs",
        // Counts, and rows that `wirelane` takes by a pipe.
        "sink/mod.rs",
        "sink/store.rs",
    ];
    for path in wirelane_testkit::files::below(&source) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&source).unwrap().to_str().unwrap();
        let writes = ways.iter().any(|way| text.contains(way)) && !name.contains("tests");
        assert!(!writes || known.contains(&name), "{name} prints, too");
    }
}
