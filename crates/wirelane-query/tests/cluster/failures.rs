//! What is missing is named, and what dies keeps nobody waiting.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wirelane_testkit::process::{self, ChildGuard};

use crate::machines::{Cluster, fill, query};
use crate::s3::{LIMIT, S3};

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

/// Kills the last executor when it has worked for half a second; the query must not have ended.
fn kill_at_work(cluster: &mut Cluster, query: &mut ChildGuard) {
    let executor = cluster.executors.pop().unwrap();
    let before = ticks(executor.id());
    let id = executor.id();
    query.wait_until(LIMIT, |_| ticks(id) >= before + 50);
    executor.signal(Signal::KILL);
    assert!(query.is_running(), "the query ended before its executor was killed");
}

#[test]
fn an_executor_that_is_killed_costs_time_and_no_rows() {
    let server = S3::start();
    fill(&server, 3000);
    let expected = process::run(&mut query(&server, None, LONG));
    let mut cluster = Cluster::start(&server, 2);
    let url = cluster.url();
    let mut running = ChildGuard::spawn(&mut query(&server, Some(&url), LONG));
    kill_at_work(&mut cluster, &mut running);
    let ended = running.wait(2 * LIMIT);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(ended.stdout, expected);
    // Now the last one: nobody is left to do the work.
    let began = Instant::now();
    let mut running = ChildGuard::spawn(&mut query(&server, Some(&url), LONG));
    kill_at_work(&mut cluster, &mut running);
    let ended = running.wait(LIMIT);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("all executors were lost"), "{}", ended.stderr);
    assert!(began.elapsed() < LIMIT);
    assert_eq!(ended.stdout, "");
}

#[test]
fn what_a_cluster_lacks_is_named() {
    let mut server = S3::start();
    fill(&server, 50);
    let sql = "SELECT count(*) FROM flows";
    let fails = |command: &mut Command, expected: &[&str]| {
        let ended = ChildGuard::spawn(command).wait(Duration::from_secs(20));
        assert_eq!(ended.status.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
        assert!(expected.iter().all(|text| ended.stderr.contains(text)), "{}", ended.stderr);
    };
    // Nobody listens on port 1.
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
    // The cluster is as it was.
    cluster.add(&server.environment());
    server.go_away();
    server.come_back();
}
