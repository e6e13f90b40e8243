//! Programs that search packets: ngrep, p0f, arpwatch, tcpflow.

use wirelane_testkit::installed::Program;
use wirelane_testkit::privileged;

use crate::bed::{Bed, Ending, Run, assert_alike, assert_same, offline, succeeded};
use crate::capture::assert_same_packets;

#[test]
fn privileged_ngrep_finds_the_same_text() {
    if !privileged::require() || !Program::require(&["ngrep", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let cases: [&[&str]; 4] = [
        &["-q", "-d", "@", "-W", "byline", "GET /page/1", "tcp", "port", "80"],
        &["-q", "-d", "@", "-x", "-i", "NGINX"],
        &["-q", "-d", "@", "-O", "found.pcap", "example", "udp"],
        &["-d", "@", "-n", "7", "-l", "page"],
    ];
    let programs = cases.map(|args| ("ngrep", args));
    for (runs, args) in
        bed.watch(&programs, Ending::Interrupt, || bed.replay()).into_iter().zip(cases)
    {
        let what = format!("{args:?}");
        assert_same(&what, &runs[0].output.stdout, &runs[1].output.stdout);
        assert!(
            runs[0].output.stdout.contains("page") || runs[0].output.stdout.contains("example")
        );
        if args.contains(&"-O") {
            let [stock, ours] = runs.map(|run| run.bytes("found.pcap"));
            assert!(!assert_same_packets(&what, [&stock, &ours]).records.is_empty());
        }
    }
}

#[test]
fn privileged_p0f_recognises_the_same_systems() {
    if !privileged::require() || !Program::require(&["p0f", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let runs = bed.live("p0f", &["-i", "@", "-o", "log"], Ending::Interrupt);
    assert_alike("p0f", &runs);
    let [stock, ours] = runs.map(|run| without_dates(&run));
    assert_same("its log", &stock, &ours);
    assert!(ours.contains("mod=syn|") && ours.contains("mod=http response|"), "{ours}");
}

/// The lines of p0f's log: `[2026/11/23 06:33:30] mod=syn|…`.
fn without_dates(run: &Run) -> String {
    let log = run.text("log");
    log.lines().filter_map(|line| Some(format!("{}\n", line.split_once("] ")?.1))).collect()
}

#[test]
fn privileged_arpwatch_reports_the_same_stations() {
    if !privileged::require() || !Program::require(&["arpwatch", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let args = ["-d", "-i", "@", "-n", "192.0.2.0/24", "-f", "empty"];
    let runs = bed.live("arpwatch", &args, Ending::Terminate);
    let timeless = |text: &str| -> String {
        let kept = |line: &&str| !line.contains("timestamp:") && !line.contains("delta:");
        text.lines().filter(kept).map(|line| format!("{line}\n")).collect()
    };
    let [stock, ours] = runs.each_ref().map(|run| timeless(&run.output.stderr));
    let [stock_out, ours_out] = runs.each_ref().map(|run| timeless(&run.output.stdout));
    assert_same("reports", &(stock + &stock_out), &(ours.clone() + &ours_out));
    assert!((ours + &ours_out).contains("changed ethernet address (192.0.2.3)"));
    // "02:00:5e:10:00:01	192.0.2.1	1795415682		wla0"
    let [stock, ours] = runs.map(|run| {
        let text = run.text("empty");
        let stations = text.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{} {}\n", words[0], words[1])
        });
        stations.collect::<String>()
    });
    assert_same("stations", &stock, &ours);
    assert_eq!(ours.lines().count(), 9, "{ours}");
}

#[test]
fn privileged_tcpflow_puts_the_same_streams_together() {
    if !privileged::require() || !Program::require(&["tcpflow", "tcpreplay"]) {
        return;
    }
    let bed = Bed::new();
    let runs = succeeded(bed.live("tcpflow", &["-i", "@"], Ending::Interrupt));
    let [stock, ours] = runs.map(|run| run.files(&["report.xml"]));
    assert_eq!(stock, ours);
    assert!(ours.len() > 40, "{} files", ours.len());
}

#[test]
fn files_are_read_alike() {
    if !Program::require(&["ngrep", "p0f", "arpwatch", "tcpflow"]) {
        return;
    }
    let ngrep = ["-q", "-I", "traffic.pcap", "-W", "byline", "-t", "GET", "tcp", "port", "80"];
    assert_alike("ngrep -I", &succeeded(offline("ngrep", &ngrep)));
    let p0f = offline("p0f", &["-r", "traffic.pcap", "-o", "log"]);
    assert_alike("p0f -r", &p0f);
    let [stock, ours] = p0f.map(|run| run.text("log"));
    assert_same("p0f's log", &stock, &ours);
    let args = ["-d", "-r", "traffic.pcap", "-n", "192.0.2.0/24", "-f", "empty"];
    assert_alike("arpwatch -r", &offline("arpwatch", &args));
    let tcpflow = succeeded(offline("tcpflow", &["-r", "traffic.pcap"]));
    let [stock, ours] = tcpflow.map(|run| run.files(&["report.xml"]));
    assert_eq!(stock, ours);
}
