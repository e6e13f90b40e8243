//! The rate limit of a queue is found.

use wirelane_testkit::{privileged, tools};

use super::middle::Middle;
use super::ndr;

/// Packets of 60 bytes per second.
const LIMIT: f64 = 8_000.0;

#[test]
fn privileged_the_rate_of_a_bottleneck_is_found_within_a_percent() {
    if !privileged::require() || !tools::require("tc") {
        return;
    }
    let middle = Middle::new();
    middle.bridge();
    // At most 60 packets wait.
    let tbf = "qdisc add dev END root tbf rate 3840000 burst 1500 limit 3600";
    let tbf = tbf.replace("END", &middle.ends[1]);
    middle.inside.run("tc", tbf.split(' '));
    let search = "--tests throughput --sizes 64 --one-way --max-rate 24kpps --duration 2s \
                  --precision 0.5%";
    let search: Vec<_> = search.split_whitespace().collect();
    for attempt in 1.. {
        let found = ndr(&middle.tester, &search);
        let throughput = &found["sizes"][0]["throughput"][0];
        assert_eq!(throughput["complete"], true);
        let says_so = throughput["sender_bound"] == true || throughput["sender_late"] == true;
        let rate = throughput["pps"].as_f64().unwrap();
        // A rate that passed is valid, whatever the sender did.
        assert!(rate < 1.01 * LIMIT, "{throughput}");
        if says_so {
            // The sender did not reach its rates: other processes have the CPU.
            eprintln!("attempt {attempt}: the sender was held up: {throughput}");
            assert!(attempt < 4, "this machine has no time for the sender: nothing was measured");
            continue;
        }
        assert!((rate / LIMIT - 1.0).abs() < 0.01, "{throughput}");
        return;
    }
}
