//! Suricata of Debian trixie, in pcap mode, with one thread and with several.

use serde_json::Value;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::privileged;

use crate::bed::{Bed, Ending, PATIENCE, Run, assert_same};
use crate::traffic;
use wirelane_testkit::installed::Program;

const RULES: &str = r#"
alert http any any -> any any (msg:"page"; http.uri; content:"/page/1"; sid:1; rev:1;)
alert dns any any -> any any (msg:"lookup"; dns.query; content:"host1"; sid:2; rev:1;)
alert icmp any any -> any any (msg:"ping"; itype:8; sid:3; rev:1;)
"#;

/// Its configuration. `%` is replaced by the caller's words.
const CONFIGURATION: &str = "%YAML 1.1
---
vars: {address-groups: {HOME_NET: any, EXTERNAL_NET: any}, port-groups: {HTTP_PORTS: '80'}}
default-log-dir: .
stats: {enabled: yes, interval: 1}
outputs:
  - eve-log:
      enabled: yes
      filetype: regular
      filename: eve.json
      types: [alert, http, dns, flow, stats: {totals: yes, threads: no}]
logging: {default-log-level: notice, outputs: [console: {enabled: yes}]}
pcap: [{interface: %interface, threads: %threads, promisc: yes, checksum-checks: no}]
app-layer:
  protocols: {http: {enabled: yes, libhtp: {}}, dns: {tcp: {enabled: yes}, udp: {enabled: yes}}}
run-as: {user: root, group: root}
unix-command: {enabled: no}
default-rule-path: ..
rule-files: [test.rules]
classification-file: %etc/classification.config
reference-config-file: %etc/reference.config
";

/// The arguments to listen with `threads` of them.
fn arguments(bed: &Bed, threads: u32) -> Vec<String> {
    let etc = Program::find("suricata").unwrap().file("etc/suricata");
    let text = CONFIGURATION
        .replace("%interface", bed.interface())
        .replace("%threads", &threads.to_string())
        .replace("%etc", &etc.display().to_string());
    let name = format!("suricata-{threads}.yaml");
    bed.write(&name, &text);
    bed.write("test.rules", RULES);
    let name = format!("../{name}");
    ["-v", "-c", &name, "--pcap=@", "--runmode=workers", "-l", "."].map(str::to_owned).to_vec()
}

/// Runs it once over `library` with `threads` and the options of the drop-in.
fn watch(bed: &Bed, library: Library, threads: u32, options: Option<&str>) -> Run {
    let args = arguments(bed, threads);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let variables = options.map(|options| ("WIRELANE_PCAP", options));
    let mut running = bed.spawn_with(library, "suricata", &args, variables.as_slice());
    // With all handles open, no packet is lost or reaches only some of them.
    running.child.wait_until(PATIENCE, |it| it.stdout().contains("Engine started"));
    running.wait_until_listening();
    bed.replay();
    running.end(Ending::Interrupt)
}

/// Its report: all events except statistics, without times and ids, sorted.
fn events(run: &Run) -> String {
    let text = run.text("eve.json");
    let events = text.lines().filter_map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        for key in ["timestamp", "flow_id"] {
            event.as_object_mut()?.remove(key);
        }
        for key in ["start", "end", "age"] {
            event.get_mut("flow").and_then(Value::as_object_mut).and_then(|flow| flow.remove(key));
        }
        (event["event_type"] != "stats").then(|| event.to_string())
    });
    let mut events: Vec<String> = events.collect();
    events.sort_unstable();
    events.join("\n")
}

/// The packets that it decoded, and the sums of `pcap_stats` over all handles at the end: received
/// and dropped.
fn counts(run: &Run) -> [u64; 3] {
    let text = run.text("eve.json");
    let parsed = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = parsed.rev().find(|event| event["event_type"] == "stats").unwrap();
    let decoded = last["stats"].pointer("/decoder/pkts").and_then(Value::as_u64).unwrap();
    // "Info: pcap: wla0: pcap total:332 recv:332 drop:0 (0.0%)"
    let sum = |name: &str| -> u64 {
        let words = run.output.stdout.split_whitespace();
        words.filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
    };
    [decoded, sum("total:"), sum("drop:")]
}

/// How many threads read packets: "Threads created -> W: 2 FM: 1 FR: 1". There are at most as many
/// as CPUs.
fn workers(run: &Run) -> u64 {
    let (_, rest) = run.output.stdout.split_once("-> W: ").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn privileged_suricata_reports_the_same_events() {
    if !privileged::require() || !Program::require(&["suricata", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let [stock, ours] = Library::BOTH.map(|library| watch(&bed, library, 1, None));
    assert_same("events", &events(&stock), &events(&ours));
    let all = traffic::frames().len() as u64;
    assert_eq!([counts(&stock), counts(&ours)], [[all, all, 0]; 2]);
    assert!(events(&ours).lines().count() > 150, "{}", events(&ours));
}

/// Over the stock library, each thread gets every packet. Over the drop-in, the same holds unless
/// the threads share.
#[test]
fn privileged_threads_of_suricata_share_the_traffic_by_flow() {
    if !privileged::require() || !Program::require(&["suricata", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let all = traffic::frames().len() as u64;
    let each = Library::BOTH.map(|library| watch(&bed, library, 4, None));
    for run in &each {
        let threads = workers(run);
        assert_eq!(counts(run), [threads * all, threads * all, 0]);
    }

    let alone = watch(&bed, Library::Stock, 1, None);
    let shared = watch(&bed, Library::Ours, 4, Some("share=flow"));
    assert_same("events", &events(&alone), &events(&shared));
    assert_eq!(counts(&shared), [all, all, 0]);
    assert!(workers(&shared) > 1, "{}", shared.output.stdout);
}
