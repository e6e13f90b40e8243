//! dumpcap and tshark.

use std::process::Command;

use wirelane_testkit::installed::Program;
use wirelane_testkit::privileged;
use wirelane_testkit::process::run;

use crate::bed::{Bed, Ending, Run, assert_alike, assert_same, succeeded};
use crate::traffic;

/// The fields of a packet that tshark prints: all but its time and fields derived from it.
const FIELDS: [&str; 16] = [
    "-T",
    "fields",
    "-e",
    "frame.number",
    "-e",
    "frame.len",
    "-e",
    "frame.cap_len",
    "-e",
    "frame.protocols",
    "-e",
    "_ws.col.Source",
    "-e",
    "_ws.col.Destination",
    "-e",
    "_ws.col.Info",
];

/// All packets of a capture file, whatever its format.
#[track_caller]
fn packets(run_of: &Run, file: &str) -> String {
    let args = ["-r", file, "-n", "-x", "-o", "gui.column.format:\"Info\",\"%i\""];
    run(Command::new("tshark").args(args).current_dir(&run_of.directory))
}

#[test]
fn privileged_dumpcap_writes_the_same_packets() {
    if !privileged::require() || !Program::require(&["dumpcap", "tshark", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let all = traffic::frames().len();
    let cases: [(&[&str], usize); 4] = [
        (&["-i", "@", "-w", "out"], all),
        (&["-i", "@", "-w", "out", "-P", "-s", "70"], all),
        (&["-i", "@", "-w", "out", "-f", "udp port 53"], 0),
        (&["-i", "@", "-w", "out", "-B", "4", "-y", "EN10MB", "-p"], all),
    ];
    let programs = cases.map(|(args, _)| ("dumpcap", args));
    let all_runs = bed.watch(&programs, Ending::Interrupt, || bed.replay());
    for (runs, (args, expected)) in all_runs.into_iter().zip(cases) {
        let [stock, ours] = succeeded(runs);
        let what = format!("{args:?}");
        assert_same(&what, &packets(&stock, "out"), &packets(&ours, "out"));
        // "Packets received/dropped on interface 'wla0': 402/0
        // (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)"
        let counted = |run: &Run| run.output.stderr.lines().last().unwrap_or_default().to_owned();
        assert_same(&what, &counted(&stock), &counted(&ours));
        let counts = format!(": {all}/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)");
        assert!(expected == 0 || counted(&ours).ends_with(&counts), "{}", ours.output.stderr);
    }
}

#[test]
fn privileged_dumpcap_stops_after_a_count_and_changes_files() {
    if !privileged::require() || !Program::require(&["dumpcap", "tshark", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let cases: [&[&str]; 2] = [
        &["-q", "-i", "@", "-w", "out", "-c", "123"],
        &[
            "-q",
            "-i",
            "@",
            "-w",
            "out",
            "-b",
            "packets:60",
            "-a",
            "files:3",
            "-b",
            "printname:names",
        ],
    ];
    let programs = cases.map(|args| ("dumpcap", args));
    let runs = bed.watch(&programs, Ending::Itself, || bed.replay());
    let mut runs = runs.into_iter().map(succeeded);
    let [stock, ours] = runs.next().unwrap();
    assert_same("-c", &packets(&stock, "out"), &packets(&ours, "out"));
    let files = |run: &Run| -> Vec<String> {
        let names = run.text("names");
        names.lines().map(|name| packets(run, name)).collect()
    };
    let [stock, ours] = runs.next().unwrap().map(|run| files(&run));
    assert_eq!(stock.len(), 3);
    for (stock, ours) in stock.iter().zip(&ours) {
        assert_same("a file of several", stock, ours);
    }
    assert_eq!(stock.len(), ours.len());
}

#[test]
fn privileged_dumpcap_lists_and_refuses_the_same() {
    if !privileged::require() || !Program::require(&["dumpcap"]) {
        return;
    }
    let bed = Bed::new();
    let cases: [&[&str]; 9] = [
        &["-D"],
        &["-D", "-M"],
        &["-i", "@", "-L"],
        &["-i", "@", "-L", "-M"],
        &["-i", "@", "--list-time-stamp-types"],
        &["-i", "@", "-d", "-f", "tcp port 80"],
        &["-i", "@", "-f", "no such word"],
        &["-i", "nosuch0"],
        &["-i", "@", "-I", "-L"],
    ];
    for args in cases {
        let runs = bed.each("dumpcap", args).map(|run| run.without("wirelane:"));
        assert_alike(&format!("{args:?}"), &runs);
    }
}

#[test]
fn privileged_tshark_decodes_the_same_fields() {
    if !privileged::require() || !Program::require(&["tshark", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let all = traffic::frames().len().to_string();
    let live = |extra: &[&'static str]| [&["-n", "-i", "@", "-l"], extra, &FIELDS].concat();
    let cases = [
        live(&["-c", Box::leak(all.into_boxed_str())]),
        live(&["-c", "20", "-f", "tcp[tcpflags] & tcp-syn != 0 and tcp[tcpflags] & tcp-ack == 0"]),
        live(&["-c", "10", "-f", "udp", "-Y", "dns.flags.response == 1"]),
    ];
    let programs: Vec<_> = cases.iter().map(|args| ("tshark", &args[..])).collect();
    let runs = bed.watch(&programs, Ending::Itself, || bed.replay());
    for (runs, args) in runs.into_iter().zip(&cases) {
        let [stock, ours] = succeeded(runs);
        assert_same(&format!("{args:?}"), &stock.output.stdout, &ours.output.stdout);
        assert!(!ours.output.stdout.is_empty());
    }
    for args in [&["-i", "@", "-L"][..], &["-i", "nosuch0"]] {
        assert_alike(&format!("{args:?}"), &bed.each("tshark", args));
    }
    // The drop-in lists more devices; later entries therefore have other numbers.
    let [stock, ours] = succeeded(bed.each("tshark", &["-D"])).map(|run| {
        let listed = run.without("wirelane:").output.stdout;
        let names = listed.lines().filter_map(|line| Some(line.split_once(". ")?.1.to_owned()));
        names.collect::<Vec<_>>()
    });
    assert_eq!(stock, ours);
}
