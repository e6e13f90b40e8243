//! Programs that capture with Wirelane's libpcap. They listen for no requests: each handle shows
//! its counters on a board ([`wirelane_os::board`]). The library's `status.rs` writes the boards
//! that this module reads.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use serde::Deserialize;
use serde_json::{Value, json};
use wirelane::internal::clock;
use wirelane_os::board::{self, Shown};
use wirelane_wire::text;

use super::request::Identity;

/// The text of a board, which never changes.
#[derive(Deserialize)]
struct BoardText {
    schema: String,
    version: String,
    /// When the handle was opened, on the monotonic clock.
    since_ns: u64,
    /// As in `wirelane.stats/1`, with `handles`.
    document: Value,
    /// Where in the document each number belongs, in the order of the numbers.
    numbers: Vec<String>,
}

/// A handle: the text of its board, with the numbers filled in.
struct BoardHandle {
    version: String,
    since_ns: u64,
    document: Value,
}

/// The lists of a document whose rows name a port by its position.
const LISTS: [&str; 3] = ["queues", "tx", "handles"];

/// A document of schema `wirelane.stats/1` about process `pid`; `None` if it has no board.
///
/// # Errors
/// `NotFound` if there is no such process, `PermissionDenied` if its boards may not be read.
pub(super) fn statistics(pid: u32) -> io::Result<Option<Value>> {
    let handles = handles(pid)?;
    let Some(version) = handles.first().map(|handle| handle.version.clone()) else {
        return Ok(None);
    };
    let elapsed_s = elapsed_s(&handles);
    let (mut ports, mut lists) = (Vec::new(), LISTS.map(|_| Vec::new()));
    for mut handle in handles {
        for (name, all) in LISTS.iter().zip(&mut lists) {
            for mut row in take(&mut handle.document, name) {
                // Make the port's position count across all handles.
                let port =
                    row["port"].as_u64().and_then(|port| port.checked_add(ports.len() as u64));
                if let Some(row) = row.as_object_mut() {
                    row.insert("port".into(), json!(port));
                    all.push(Value::Object(std::mem::take(row)));
                }
            }
        }
        ports.append(&mut take(&mut handle.document, "ports"));
    }
    let [queues, tx, handles] = lists;
    let cpu = clock::process_cpu_of(pid).map(
        |cpu| json!({ "user_s": cpu.user.as_secs_f64(), "system_s": cpu.system.as_secs_f64() }),
    );
    let mut document = json!({
        "schema": "wirelane.stats/1",
        "command": command(pid),
        "library": LIBRARY,
        "version": version,
        "pid": pid,
        "elapsed_s": elapsed_s,
        "ports": ports,
        "handles": handles,
        "totals": totals(&queues, &tx),
        "queues": queues,
        "cpu": cpu,
    });
    if let Some(document) = document.as_object_mut().filter(|_| !tx.is_empty()) {
        document.insert("tx".into(), Value::Array(tx));
    }
    Ok(Some(document))
}

/// Whether process `pid` has a board of a handle.
pub(super) fn shows(pid: u32) -> bool {
    handles(pid).is_ok_and(|handles| !handles.is_empty())
}

/// The programs that this user may read, up to `most`, and whether there are more.
pub(super) fn all(user: u32, most: usize) -> (Vec<(u32, Identity)>, bool) {
    let mut found = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
        (user == 0 || entry.metadata().ok()?.uid() == user).then_some(pid)
    });
    for pid in processes {
        let Some(identity) = identity(pid) else { continue };
        if found.len() >= most {
            return (found, true);
        }
        found.push((pid, identity));
    }
    (found, false)
}

fn identity(pid: u32) -> Option<Identity> {
    let handles = handles(pid).ok()?;
    let specs = |handle: &BoardHandle| -> Vec<String> {
        let ports = handle.document["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        ports.iter().filter_map(|port| port["spec"].as_str().map(short)).collect()
    };
    Some(Identity {
        store: None,
        command: command(pid)?,
        version: short(&handles.first()?.version),
        elapsed_s: elapsed_s(&handles),
        ports: handles.iter().flat_map(specs).take(PORTS).collect(),
        library: Some(LIBRARY.into()),
    })
}

const LIBRARY: &str = "libpcap";
/// Most ports of one program in a list of programs.
const PORTS: usize = 64;

/// Each program chooses its text freely.
fn short(text: &str) -> String {
    text::brief(text).into_owned()
}

fn handles(pid: u32) -> io::Result<Vec<BoardHandle>> {
    Ok(board::of_process(pid)?.into_iter().filter_map(handle).collect())
}

/// Reads a board that any process may have written; `None` if it is malformed.
fn handle(shown: Shown) -> Option<BoardHandle> {
    let text: BoardText = serde_json::from_str(&shown.text).ok()?;
    let BoardText { schema, version, since_ns, mut document, numbers } = text;
    if schema != "wirelane.board/1" || numbers.len() != shown.numbers.len() {
        return None;
    }
    for (place, number) in numbers.iter().zip(shown.numbers) {
        let number = (number != u64::MAX).then_some(number);
        *document.pointer_mut(place)? = json!(number);
    }
    Some(BoardHandle { version, since_ns, document })
}

/// Seconds since the first handle was opened.
fn elapsed_s(handles: &[BoardHandle]) -> f64 {
    let since = handles.iter().map(|handle| handle.since_ns).min().unwrap_or(u64::MAX);
    clock::monotonic_ns().saturating_sub(since) as f64 / 1e9
}

/// The name of the program.
fn command(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// Removes the list from the document and returns its rows.
fn take(document: &mut Value, list: &str) -> Vec<Value> {
    match document.get_mut(list).map(Value::take) {
        Some(Value::Array(rows)) => rows,
        _ => Vec::new(),
    }
}

fn totals(queues: &[Value], tx: &[Value]) -> Value {
    let sum = |rows: &[Value], number: &dyn Fn(&Value) -> Option<u64>| {
        rows.iter().try_fold(0_u64, |sum, row| sum.checked_add(number(row)?))
    };
    let of = |name: &'static str| sum(queues, &|row| row[name].as_u64());
    let dropped = |row: &Value| {
        let reasons = row["dropped"].as_object()?;
        reasons.values().try_fold(0_u64, |sum, number| sum.checked_add(number.as_u64()?))
    };
    json!({
        "received": of("received"),
        "merged": of("merged"),
        "filtered": of("filtered"),
        "delivered": of("packets"),
        "written": null,
        "sent": sum(tx, &|row| row["packets"].as_u64()),
        "dropped": sum(queues, &dropped),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane_os::board::Board;

    /// As the library writes it.
    fn board(device: &str, numbers: &[u64]) -> Board {
        let places = [
            "/queues/0/received",
            "/queues/0/packets",
            "/queues/0/dropped/kernel",
            "/tx/0/packets",
        ];
        let text = json!({
            "schema": "wirelane.board/1", "version": "0.1.0", "since_ns": clock::monotonic_ns(), "numbers": places,
            "document": {
                "ports": [{ "spec": device, "mode": "sim", "interface": null }],
                "queues": [{ "port": 0, "queue": 0, "class": "rx", "received": 0, "packets": 0, "merged": 0, "filtered": 0,
                             "dropped": { "kernel": 0, "ring_full": 1 } }],
                "tx": [{ "port": 0, "queue": 0, "packets": 0 }],
                "handles": [{ "port": 0, "device": device, "ps_recv": null }],
            },
        });
        let mut board = Board::new(&text.to_string(), places.len()).unwrap();
        board.set(0, numbers.iter().copied());
        board
    }

    /// The boards of all handles of this process become one document. Other boards are ignored.
    #[test]
    fn all_handles_of_a_process_are_one_document() {
        let pid = std::process::id();
        assert!(!shows(pid) && statistics(pid).unwrap().is_none());
        let _boards = [
            board("a", &[7, 5, 1, 2]),
            Board::new("{}", 1).unwrap(),
            Board::new("nothing of ours", 0).unwrap(),
            board("b", &[u64::MAX, 6, u64::MAX, 3]),
        ];
        let document = statistics(pid).unwrap().unwrap();
        let rows = |list: &str, name: &str| {
            let rows = document[list].as_array().unwrap().iter();
            rows.map(|row| json!([row["port"], row[name]])).collect::<Vec<_>>()
        };
        assert_eq!(rows("queues", "received"), [json!([0, 7]), json!([1, null])]);
        assert_eq!(rows("queues", "packets"), [json!([0, 5]), json!([1, 6])]);
        assert_eq!(rows("handles", "device"), [json!([0, "a"]), json!([1, "b"])]);
        assert_eq!(rows("tx", "packets"), [json!([0, 2]), json!([1, 3])]);
        let totals = json!({ "received": null, "merged": 0, "filtered": 0, "delivered": 11, "written": null,
                             "sent": 5, "dropped": null });
        assert_eq!(document["totals"], totals);
        assert!(document["cpu"]["user_s"].is_f64() && document["elapsed_s"].as_f64() < Some(600.0));
        let (all, more) = all(crate::privilege::uid(), 1 << 20);
        let (_, own) = all.into_iter().find(|(other, _)| *other == pid).unwrap();
        assert_eq!(
            (own.ports, own.library, more),
            (vec!["a".into(), "b".into()], Some("libpcap".into()), false)
        );
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        let text = |document: Value, numbers: &[&str]| {
            let text = json!({ "schema": "wirelane.board/1", "version": "", "since_ns": 0, "document": document, "numbers": numbers });
            handle(Shown { text: text.to_string(), numbers: vec![1] }).map(|handle| handle.document)
        };
        assert_eq!(text(json!({ "a": [0] }), &["/a/0"]), Some(json!({ "a": [1] })));
        assert_eq!(text(json!({ "a": [0] }), &["/a/1"]), None);
        assert_eq!(text(json!({ "a": [0] }), &["/a/0", "/a/0"]), None);
        assert_eq!(text(json!(3), &[""]), Some(json!(1)));
        for text in ["", "{}", "[", "null", &"[".repeat(100_000)] {
            assert!(handle(Shown { text: text.to_owned(), numbers: Vec::new() }).is_none());
        }
    }
}
