//! Notes of a summary: three lines without `-v`, all of them with it and as JSON.

use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

#[test]
fn privileged_three_lines_of_notes_are_enough_without_v() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 2, 1500);
    let interface = &pair.a.interface;
    pair.a.ethtool(&["-K", interface, "gro", "on"]);
    let wanted = "mode=generic&rx_hash=auto&rx_timestamps=auto";
    let port = format!("xdp:{interface}?{wanted}");
    let run = |more: &[&str]| {
        let mut command = ns.command(WIRELANE);
        command.args(["capture", "--all", "--duration", "200ms", "-w", "/dev/null"]);
        let ended = output(command.arg(&port).args(more));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        ended
    };
    let notes = |ended: &Output| {
        let lines = ended.stderr.lines().filter(|line| line.starts_with("note: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (few, all) = (notes(&run(&[])), notes(&run(&["-v"])));
    assert!(all.len() > 3, "{all:#?}");
    assert!(few.len() <= 3 && few.last().unwrap().ends_with(": -v"), "{few:#?}");
    let json: Value = serde_json::from_str(&run(&["--json"]).stdout).unwrap();
    assert_eq!(json["ports"][0]["notes"].as_array().unwrap().len(), all.len(), "{json}");
}
