//! Live commands, which open ports and run until an event ends them, support the same options and
//! requests. The table of this is in `docs/operate.md`; `WIRELANE_BLESS=1` writes it anew.

use std::fmt::Write as _;
use std::{env, fs, thread};

use rustix::process::Signal;
use tempfile::tempdir;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, process};

use super::*;

/// Options and requests, in the order of the table.
const COLUMNS: [&str; 9] =
    ["--netns", "--duration", "-c", "-q", "--json", "-i", "SIGUSR1", "stats", "mask"];

/// A live command.
struct Row {
    command: &'static str,
    /// PORT and OTHER are replaced by interfaces, DIR by a directory.
    args: &'static [&'static str],
    /// Missing options, with the reasons.
    missing: &'static [(&'static str, &'static str)],
}

const ROWS: [Row; 7] = [
    Row { command: "capture", args: &["PORT"], missing: &[] },
    Row { command: "count", args: &["PORT"], missing: &[] },
    Row { command: "flows", args: &["PORT"], missing: &[] },
    Row { command: "forward", args: &["PORT", "sim:1?rate=1kpps"], missing: &[] },
    Row {
        command: "ndr",
        args: &["PORT", "OTHER", "--rate", "1kpps"],
        missing: &[
            ("-c", "a trial ends by time; `--duration` is the length of each"),
            ("stats", "counters begin anew with each trial; SIGUSR1 prints them"),
            ("mask", "what a mask leaves out would count as lost"),
        ],
    },
    Row { command: "record", args: &["PORT", "DIR", "--min-free", "0%"], missing: &[] },
    Row {
        command: "send",
        args: &["PORT", "--packet", "udp", "--rate", "1kpps"],
        missing: &[("mask", "it receives nothing")],
    },
];

/// Commands with `--netns` that do not run a session.
const NOT_LIVE: [&str; 2] = ["exec", "queues"];

/// A namespace with two interfaces that are linked.
struct Bed {
    ns: Namespace,
    pair: VethPair,
}

impl Bed {
    fn new() -> Self {
        let ns = Namespace::new();
        let pair = VethPair::new(&ns, &ns, 1, 1500);
        Self { ns, pair }
    }

    /// The command of a row with these options, in the namespace.
    fn command(&self, row: &Row, directory: &Path, options: &[&str]) -> Command {
        let mut command = self.ns.command(WIRELANE);
        command.args(self.words(row, directory)).args(options);
        command
    }

    fn words(&self, row: &Row, directory: &Path) -> Vec<String> {
        let (a, b) = (&self.pair.a.interface, &self.pair.b.interface);
        words(row, a, b, directory)
    }
}

fn words(row: &Row, port: &str, other: &str, directory: &Path) -> Vec<String> {
    let store = directory.join("store").display().to_string();
    let word = |word: &&str| match *word {
        "PORT" => port.to_owned(),
        "OTHER" => other.to_owned(),
        "DIR" => store.clone(),
        word => word.to_owned(),
    };
    [row.command.to_owned()].into_iter().chain(row.args.iter().map(word)).collect()
}

impl Row {
    fn supports(&self, column: &str) -> bool {
        self.missing.iter().all(|(missing, _)| *missing != column)
    }
}

/// Tries a column on each command; `works` says whether the command supports it.
#[track_caller]
fn each(column: &str, works: impl Fn(&Row, &Path) -> bool) {
    assert!(COLUMNS.contains(&column));
    for row in &ROWS {
        let directory = tempdir().unwrap();
        let found = works(row, directory.path());
        assert_eq!(found, row.supports(column), "{} {column}", row.command);
    }
}

const SHORT: [&str; 2] = ["--duration", "300ms"];

fn succeeds(command: &mut Command) -> Output {
    let ended = output(command);
    assert_eq!(ended.status.code(), Some(0), "{command:?}: {}", ended.stderr);
    ended
}

/// Whether it succeeded; a failure must be an unknown option.
fn is_known(command: &mut Command) -> bool {
    let ended = output(command);
    let is_unknown = ended.stderr.contains("no such option");
    assert!(is_unknown || ended.status.success(), "{command:?}: {}", ended.stderr);
    !is_unknown
}

/// The names of the commands, each with its help.
pub(crate) fn commands() -> Vec<(String, String)> {
    let help = output(&mut wirelane(["--help"])).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    // Lines with more text of a command are indented further.
    let lines = commands.lines().filter(|line| !line.starts_with("   "));
    let names = lines.map(|line| line.split_whitespace().next().unwrap().to_owned());
    let with_help = |name: String| {
        let help = output(&mut wirelane([name.as_str(), "--help"])).stdout;
        (name, help)
    };
    names.map(with_help).collect()
}

#[test]
fn every_live_command_has_a_row() {
    let opens = |help: &str| help.contains("--netns <NAME|PID>");
    let found: Vec<_> = commands().into_iter().filter(|(_, help)| opens(help)).collect();
    let found: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let mut expected: Vec<_> = ROWS.iter().map(|row| row.command).chain(NOT_LIVE).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn the_table_is_in_the_documents() {
    const BEGIN: &str = "<!-- table: live commands -->\n";
    const END: &str = "<!-- end of table -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (now, after) = rest.split_once(END).unwrap();
    let table = table();
    if env::var_os("WIRELANE_BLESS").is_some() {
        fs::write(&path, [before, BEGIN, &table, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(now, table, "WIRELANE_BLESS=1 cargo test -p wirelane-cli --test command live");
}

fn table() -> String {
    let head = COLUMNS.join("` | `").replace("`SIGUSR1`", "SIGUSR1");
    let mut text = format!("| command | `{head}` |\n");
    text += &format!("|---{}|\n", "|---".repeat(COLUMNS.len()));
    let mut reasons = String::new();
    let mut number = 0;
    for row in &ROWS {
        let _ = write!(text, "| `{}` |", row.command);
        for column in COLUMNS {
            let missing = row.missing.iter().find(|(missing, _)| *missing == column);
            let cell = missing.map_or("yes".to_owned(), |(_, why)| {
                number += 1;
                let _ = writeln!(reasons, "{number}. {why}");
                format!("no ({number})")
            });
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    format!("{text}\n{reasons}")
}

#[test]
fn privileged_live_commands_open_ports_of_a_namespace() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("--netns", |row, directory| {
        let words = bed.words(row, directory);
        is_known(wirelane(words).args(SHORT).arg("--netns").arg(bed.ns.path()))
    });
}

#[test]
fn privileged_live_commands_end_in_time() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("--duration", |row, directory| {
        let ended = succeeds(&mut bed.command(row, directory, &["--json", "--duration", "300ms"]));
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        document["elapsed_s"].as_f64().is_none_or(|seconds| seconds >= 0.3)
    });
}

#[test]
fn privileged_live_commands_end_after_so_many_packets() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("-c", |row, directory| {
        let mut command = match row.command {
            "ndr" => bed.command(row, directory, &[]),
            // No host sends here, but a simulation has packets.
            _ => wirelane(words(row, "sim:1?rate=1kpps", "", directory)),
        };
        let ended = output(command.args(["--json", "-c", "50"]));
        if ended.stderr.contains("no such option") {
            return false;
        }
        let totals = parse(&ended.stdout)["totals"].clone();
        let which = if row.command == "send" { "sent" } else { "delivered" };
        assert_eq!(totals[which], 50, "{}: {totals}", row.command);
        true
    });
}

#[test]
fn privileged_live_commands_are_quiet_when_asked() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("-q", |row, directory| {
        let said = succeeds(&mut bed.command(row, directory, &SHORT)).stderr;
        assert!(said.contains('\n'), "{}", row.command);
        succeeds(bed.command(row, directory, &SHORT).arg("-q")).stderr.is_empty()
    });
}

#[test]
fn privileged_live_commands_print_one_object() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("--json", |row, directory| {
        let ended = succeeds(bed.command(row, directory, &SHORT).arg("--json"));
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        document["schema"].as_str().is_some_and(|schema| schema.starts_with("wirelane."))
    });
}

/// As with tcpdump, `-i` may name the port, or its number in the list of `-D`.
#[test]
fn privileged_live_commands_take_the_port_behind_i() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    let a = &bed.pair.a.interface;
    let list = process::run(bed.ns.command(WIRELANE).args(["capture", "-D"]));
    let is_first = |line: &&str| line.contains(&format!(".{a} "));
    let number = list.lines().find(is_first).and_then(|line| line.split('.').next()).unwrap();
    for port in [a.as_str(), number] {
        each("-i", |row, directory| {
            let mut words = bed.words(row, directory);
            assert_eq!(words.remove(1), *a, "the first word is the port");
            let mut command = bed.ns.command(WIRELANE);
            let command = command.args(words).args(["-i", port]).args(SHORT);
            is_known(command)
        });
    }
}

/// Starts the command of a row in the namespace, and waits until it handles SIGUSR1.
fn running(bed: &Bed, row: &Row, directory: &Path, duration: &str) -> ChildGuard {
    let mut command = bed.command(row, directory, &["--duration", duration]);
    let mut child = ChildGuard::spawn(&mut command);
    let status = format!("/proc/{}/status", child.id());
    let takes = |_: &ChildGuard| {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = caught.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        caught.is_some_and(|caught| caught >> (Signal::USR1.as_raw() - 1) & 1 == 1)
    };
    child.wait_until(PATIENCE, takes);
    child
}

#[test]
fn privileged_live_commands_print_counters_when_asked() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("SIGUSR1", |row, directory| {
        let child = running(&bed, row, directory, "2s");
        child.signal(Signal::USR1);
        let ended = child.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}: {}", row.command, ended.stderr);
        ended.stderr.contains("so far: ")
    });
}

/// Asks a command, until it answers or refuses. Returns whether it answered.
fn answers(child: &ChildGuard, request: &str, options: &[&str]) -> bool {
    let pid = child.id().to_string();
    // The command may not listen yet.
    for _ in 0..20 {
        let ended = output(wirelane([request, pid.as_str()]).args(options));
        if ended.status.success() {
            return true;
        }
        thread::sleep(Duration::from_millis(100));
    }
    false
}

#[test]
fn privileged_live_commands_answer_with_statistics() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("stats", |row, directory| {
        let child = running(&bed, row, directory, "20s");
        let answers = answers(&child, "stats", &["--json"]);
        child.interrupt();
        child.wait(PATIENCE);
        answers
    });
}

#[test]
fn privileged_live_commands_change_their_masks() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    each("mask", |row, directory| {
        let child = running(&bed, row, directory, "20s");
        let answers = answers(&child, "mask", &["--port", "0", "--rx-queues", "none"]);
        child.interrupt();
        child.wait(PATIENCE);
        answers
    });
}
