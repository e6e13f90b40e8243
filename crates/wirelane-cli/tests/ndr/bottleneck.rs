//! A queue that lets only so much through is found out.

use wirelane_testkit::{privileged, tools};

use super::middle::Middle;
use super::ndr;

#[test]
fn privileged_the_rate_of_a_bottleneck_is_found_within_a_percent() {
    if !privileged::require() || !tools::require("tc") {
        return;
    }
    let middle = Middle::new();
    middle.bridge();
    // 20,000 packets of 60 bytes; 100 of them wait at most.
    const LIMIT: f64 = 20_000.0;
    let tbf = "qdisc add dev END root tbf rate 9600000 burst 3000 limit 6000";
    let tbf = tbf.replace("END", &middle.ends[1]);
    middle.inside.run("tc", tbf.split(' '));
    // A machine that is busy sends in bursts now and then, which the queue does not take: half of the
    // trials decide.
    let search = "--tests throughput --sizes 64 --one-way --max-rate 60kpps --duration 1200ms \
                  --precision 0.4% --repeat 2 --exceed 50%";
    let found = ndr(&middle.tester, &search.split_whitespace().collect::<Vec<_>>());
    let throughput = &found["sizes"][0]["throughput"][0];
    let rate = throughput["pps"].as_f64().unwrap();
    assert!((rate / LIMIT - 1.0).abs() < 0.01, "{throughput}");
    assert_eq!(throughput["sender_bound"], false);
    assert_eq!(throughput["complete"], true);
}
