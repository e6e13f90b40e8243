//! Errors name the missing part of a cluster. A killed executor ends its queries.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use wirelane_testkit::process::{self, ChildGuard, Output};

use crate::foreign::foreign;
use crate::machines::{Cluster, fill, query};
use crate::s3::{LIMIT, S3};
use wirelane_testkit::files;

/// Seconds of work for every task: all pairs of flows.
const LONG: &str = "SELECT count(*) AS pairs, max(a.octets * 7 + b.octets) AS most FROM flows a \
    JOIN flows b ON a.octets + b.packets % 5 < b.octets + a.packets % 7";

/// CPU time of a process so far, in clock ticks of 10 ms (proc_pid_stat(5)).
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Runs a query, and kills the last executor when it has worked for a while.
fn killed(server: &S3, cluster: &mut Cluster) -> Output {
    let executor = cluster.executors.pop().unwrap();
    let (id, before) = (executor.id(), ticks(executor.id()));
    let mut running = ChildGuard::spawn(&mut query(server, Some(&cluster.url()), LONG));
    running.wait_until(LIMIT, |_| ticks(id) >= before + 30);
    executor.signal(Signal::KILL);
    assert!(running.is_running(), "the query ended before its executor was killed");
    // The scheduler detects the loss after six seconds.
    running.wait(LIMIT)
}

#[test]
fn an_executor_that_is_killed_ends_its_queries_and_no_others() {
    let server = S3::start();
    fill(&server, 1000);
    let expected = process::run(&mut query(&server, None, LONG));
    let mut cluster = Cluster::start(&server, 2);
    for left in [1, 0] {
        let ended = killed(&server, &mut cluster);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("an executor was lost while it ran"), "{}", ended.stderr);
        let again = process::output(&mut query(&server, Some(&cluster.url()), LONG));
        if left > 0 {
            assert_eq!(again.stdout, expected, "{}", again.stderr);
        } else {
            assert!(again.stderr.contains("it has no executors"), "{}", again.stderr);
        }
    }
}

#[test]
fn what_a_cluster_lacks_is_named() {
    let server = S3::start();
    fill(&server, 50);
    let sql = "SELECT count(*) FROM flows";
    let fails = |command: &mut Command, expected: &[&str]| {
        let ended = ChildGuard::spawn(command).wait(Duration::from_secs(40));
        assert_eq!(ended.status.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
        assert!(expected.iter().all(|text| ended.stderr.contains(text)), "{}", ended.stderr);
    };
    // No process listens on port 1.
    let nobody = ["scheduler df://127.0.0.1:1: nobody answers there", "wirelane-query scheduler"];
    fails(&mut query(&server, Some("df://127.0.0.1:1"), sql), &nobody);
    let mut executor = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    fails(executor.args(["executor", "--scheduler", "df://127.0.0.1:1"]), &nobody);
    let other = server.environment()[3].1.replace("http://", "df://");
    fails(&mut query(&server, Some(&other), sql), &["what answers there is no scheduler"]);
    let mut cluster = Cluster::start(&server, 0);
    let url = cluster.url();
    let none = ["it has no executors", "wirelane-query executor --scheduler df://127.0.0.1:"];
    fails(&mut query(&server, Some(&url), sql), &none);
    let mut environment = server.environment();
    environment[1].1 = "wrong".into();
    cluster.add(&environment);
    fails(&mut query(&server, Some(&url), sql), &["SignatureDoesNotMatch"]);
    // Half a file, as a host that dies may leave it in a directory.
    let whole = files::below(&server.bucket("flows")).remove(0);
    let mut bytes = fs::read(&whole).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(whole.with_file_name("half.parquet"), bytes).unwrap();
    cluster.add(&server.environment());
    let half = ["half.parquet: it is not a whole file of Parquet"];
    let sum = "SELECT sum(octets) FROM flows";
    fails(&mut query(&server, Some(&url), sum), &half);
    // A foreign file, in which the column of this name is text.
    fs::remove_file(whole.with_file_name("half.parquet")).unwrap();
    foreign(&whole.with_file_name("foreign.parquet"), "octets");
    let other = ["foreign.parquet: column octets is Utf8, not UInt64"];
    fails(&mut query(&server, Some(&url), sum), &other);
}
