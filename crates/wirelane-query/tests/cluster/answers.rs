//! A cluster gives the same answers as one machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::process;

use crate::machines::{Cluster, fill, query};
use crate::s3::{LIMIT, S3, program};

/// Questions of every kind: aggregates, sorting, joins, windows, subqueries, times, columns from
/// directories.
const QUESTIONS: [&str; 7] = [
    "SELECT count(*) AS flows, sum(packets) AS packets, sum(octets) AS octets, \
        min(flow_start) AS first, max(flow_end) AS last FROM flows",
    "SELECT source, sum(octets + coalesce(reverse_octets, 0)) AS bytes FROM flows \
        GROUP BY source ORDER BY bytes DESC, source LIMIT 10",
    "SELECT protocol, destination_port, count(DISTINCT source) AS sources FROM flows \
        GROUP BY protocol, destination_port ORDER BY sources DESC, protocol, destination_port LIMIT 20",
    "SELECT a.community_id, a.packets, b.packets AS other FROM flows a \
        JOIN flows b ON a.community_id = b.community_id AND a.destination = b.destination \
        WHERE a.packets > 3 ORDER BY 1, 2, 3 LIMIT 50",
    "SELECT source, octets, rank() OVER (PARTITION BY protocol ORDER BY octets DESC, community_id) AS place \
        FROM flows ORDER BY octets DESC, source, place LIMIT 30",
    "SELECT count(*) AS n FROM flows WHERE octets > (SELECT avg(octets) FROM flows)",
    "SELECT date, hour, count(*) AS n FROM flows WHERE community_id IS NOT NULL GROUP BY date, hour \
        ORDER BY date, hour",
];

#[test]
fn a_cluster_answers_as_one_machine_does() {
    let server = S3::start();
    fill(&server, 2000);
    let cluster = Cluster::start(&server, 2);
    let url = cluster.url();
    for sql in QUESTIONS {
        let expected = process::run(&mut query(&server, None, sql));
        let rows: Vec<Value> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!rows.is_empty(), "{sql}");
        assert_eq!(process::run(&mut query(&server, Some(&url), sql)), expected, "{sql}");
    }
    assert!((0..2).all(|executor| cluster.results(executor) > 0), "only one of them worked");
    for executor in &cluster.executors {
        executor.interrupt();
    }
    let mut cluster = cluster;
    for executor in cluster.executors.drain(..) {
        let ended = executor.wait(LIMIT);
        assert!(ended.status.success(), "{}", ended.stderr);
    }
    assert_eq!(cluster.left(), <[std::path::PathBuf; 0]>::default());
}

/// Questions over files and a store, which have the same paths on all machines.
const OF_PACKETS: [&str; 5] = [
    "SELECT count(*) AS packets, sum(length) AS bytes, min(time) AS first, max(time) AS last FROM packets",
    "SELECT source, count(*) AS n FROM packets GROUP BY source ORDER BY n DESC, source LIMIT 10",
    "SELECT count(*) AS n FROM packets WHERE bpf('udp') AND NOT bpf('udp port 9')",
    "SELECT time, source_port FROM packets WHERE protocol = 17 AND destination_port IN (1, 2, 3, 4, 5) ORDER BY 1, 2",
    "SELECT a.source, count(*) AS n FROM packets a JOIN packets b ON a.source = b.destination \
        GROUP BY a.source ORDER BY n DESC, a.source LIMIT 5",
];

#[test]
fn a_cluster_reads_packets_as_one_machine_does() {
    let server = S3::start();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, seed) in [("a.pcap", 3), ("b.pcapng", 4)] {
        let port = format!("sim:1?count=3000&flows=100&seed={seed}");
        process::run(program("wirelane").args(["capture", &port, "-q", "-w"]).arg(path(name)));
    }
    let port = "sim:2?count=3000&flows=100&seed=5";
    process::run(program("wirelane").args(["record", port, "-q"]).arg(path("store")));
    let ask = |sql: &str, cluster: Option<&str>, sources: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
        command.args(["query", sql, "--format", "json"]).args(sources);
        command.args(cluster.into_iter().flat_map(|url| ["--cluster", url]));
        command
    };
    let cluster = Cluster::start(&server, 2);
    let url = cluster.url();
    let sources = ["a.pcap", "b.pcapng", "store"].map(&path);
    let sources = sources.each_ref().map(|path| path.as_path());
    for sql in OF_PACKETS {
        let expected = process::run(&mut ask(sql, None, &sources));
        assert_eq!(process::run(&mut ask(sql, Some(&url), &sources)), expected, "{sql}");
    }
    // Unreadable data fails the query: an answer must not lack it.
    let bytes = fs::read(path("a.pcap")).unwrap();
    fs::write(path("a.pcap"), &bytes[..bytes.len() / 2]).unwrap();
    let ended = process::output(&mut ask(OF_PACKETS[0], Some(&url), &sources));
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("a.pcap"), "{}", ended.stderr);
}
