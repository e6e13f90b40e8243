//! Errors name the file, the cause and the remedy.

use std::fs;

use super::{answer, refusal, three_hours};
use crate::foreign::foreign;
use crate::made::write;
use wirelane_testkit::files;

const COUNT: &str = "SELECT sum(packets) FROM flows";

/// Checks the exit status, and that the error contains all words.
fn says(said: &(i32, String), status: i32, words: &[&str]) {
    assert_eq!(said.0, status, "{}", said.1);
    for word in words {
        assert!(said.1.contains(word), "{word}: {}", said.1);
    }
}

#[test]
fn sources_that_are_none_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    says(&refusal(&[COUNT], &[&missing]), 1, &["missing", "ENOENT"]);
    says(&refusal(&[COUNT], &[directory.path()]), 1, &["no Parquet files", "wirelane flows"]);
    says(&refusal(&[COUNT], &[]), 2, &["there is no table flows", "name a directory"]);
    says(&refusal(&[COUNT, "nowhere://x/y"], &[]), 1, &["nowhere"]);
}

#[test]
fn files_that_are_not_flows_are_named() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let whole = files::below(directory.path())[1].clone();
    let name = whole.file_name().unwrap().to_str().unwrap().to_owned();

    let bytes = fs::read(&whole).unwrap();
    fs::write(&whole, &bytes[..bytes.len() / 2]).unwrap();
    let said = refusal(&[COUNT], &[directory.path()]);
    says(&said, 1, &[&name, "not a whole file of Parquet", "remove it"]);
    // A query that does not need the file does not check it.
    let sql = "SELECT count(*) AS n FROM flows WHERE hour <> '03'";
    assert_eq!(answer(&[sql, "--format", "csv"], &[directory.path()]), "n\n200\n");

    foreign(&whole, "price");
    let said = refusal(&[COUNT], &[directory.path()]);
    says(&said, 1, &[&name, "none of its columns is one of flows"]);

    foreign(&whole, "packets");
    let said = refusal(&[COUNT], &[directory.path()]);
    says(&said, 1, &[&name, "column packets is Utf8, not UInt64"]);
}

#[test]
fn wrong_questions_are_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let of = |sql: &str| refusal(&[sql], &[directory.path()]);
    says(&of("SELEKT 1 FROM flows"), 2, &["SQL", "SELEKT"]);
    says(&of("SELECT bogus FROM flows"), 2, &["bogus", "information_schema.columns"]);
    says(&of("SELECT nosuch(1)"), 2, &["nosuch"]);
    says(&of("SELECT CAST(source AS INT) FROM flows"), 1, &["Cannot cast"]);
    says(&of("SELECT * FROM nosuch"), 2, &["there is no table nosuch"]);
    // Wrong constants.
    for sql in ["SELECT arrow_cast(1, 'Foo')", "SELECT INTERVAL 'xyz'"] {
        says(&of(sql), 2, &["SQL: "]);
    }
    let text = ["SELECT 1", "-w", "answer.docx"];
    says(&refusal(&text, &[]), 2, &["answer.docx", "--format"]);
    says(&refusal(&["SELECT 1", "--svg", "a.svg"], &[]), 2, &["only ready queries"]);
    says(
        &refusal(
            &["top-talkers", "--from", "2026-11-24", "--to", "2026-11-23"],
            &[directory.path()],
        ),
        2,
        &["--to"],
    );
    says(&refusal(&[], &[]), 2, &["standard input"]);
}

#[test]
fn an_answer_that_finds_no_room_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let to = tempfile::tempdir().unwrap();
    let path = to.path().join("no/answer.csv");
    says(
        &refusal(&[COUNT, "-w", path.to_str().unwrap()], &[directory.path()]),
        1,
        &["answer.csv", "ENOENT"],
    );
    let path = to.path().join("answer.csv");
    let sql = "SELECT CAST(source AS INT) FROM flows";
    says(&refusal(&[sql, "-w", path.to_str().unwrap()], &[directory.path()]), 1, &["Cannot cast"]);
    assert_eq!(files::below(to.path()).len(), 0);
}

#[test]
fn what_does_not_fit_into_memory_is_spilled_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let sql = "SELECT max(n) AS n FROM (SELECT row_number() OVER (ORDER BY text) AS n \
        FROM (SELECT repeat('x', 100) || value AS text FROM generate_series(1, 600000)))";
    let mut command = super::query(&[sql, "--memory", "64M", "--explain"], &[]);
    let ended = wirelane_testkit::process::output(command.env("TMPDIR", temporary.path()));
    assert!(ended.status.success(), "{}", ended.stderr);
    let spills = ended.stdout.split("spill_count=").skip(1);
    let spills: u64 =
        spills.map(|rest| rest.split([',', ']']).next().unwrap().parse::<u64>().unwrap()).sum();
    assert!(spills > 0, "{}", ended.stdout);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_query_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let before = files::below(directory.path());
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("v.csv");
    fs::write(&file, "precious").unwrap();
    let copy = format!("COPY (SELECT 1) TO '{}' STORED AS CSV", file.display());
    let external = "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/hostname'";
    let insert = "INSERT INTO flows SELECT * FROM flows";
    let explained = "EXPLAIN ANALYZE INSERT INTO flows SELECT * FROM flows";
    let set = "SET datafusion.execution.batch_size = 1";
    let view = "CREATE VIEW v AS SELECT 1";
    for sql in [copy.as_str(), external, insert, explained, set, view, "DROP TABLE flows"] {
        says(&refusal(&[sql], &[directory.path()]), 2, &["SQL", "only reads", "SELECT"]);
    }
    assert_eq!(files::below(directory.path()), before);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let whole = before[0].clone();
    let to = whole.to_str().unwrap();
    let said = refusal(&[COUNT, "-w", to, "--format", "parquet"], &[directory.path()]);
    says(&said, 2, &["source of the query", "another file"]);
}

#[test]
fn a_sum_of_thousands_of_terms_needs_no_more_stack_than_there_is() {
    let sum = |terms: usize| format!("SELECT {} AS n", vec!["1"; terms].join(" + "));
    assert_eq!(answer(&[&sum(2_000), "--format", "csv"], &[]), "n\n2000\n");
    says(&refusal(&[&sum(20_000)], &[]), 2, &["19999 operators", "2500 are possible"]);
}
