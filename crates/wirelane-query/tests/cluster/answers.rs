//! The same answers as on one machine.

use serde_json::Value;
use wirelane_testkit::process;

use crate::machines::{Cluster, fill, query};
use crate::s3::{LIMIT, S3};

/// Of each kind something: aggregates, sorting, joins, windows, subqueries, times, what directories say.
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
