//! Options of tcpdump and dumpcap that `capture` does not have, and what to write instead.

/// The option or command that replaces `option`; `None` if `option` is unknown.
pub(crate) fn instead_of(option: &str) -> Option<&'static str> {
    let (_, help) = INSTEAD.iter().find(|(options, _)| options.contains(&option))?;
    Some(help)
}

const INSTEAD: [(&[&str], &str); 19] = [
    (&["-a", "--autostop"], "write --duration 10s, -c N, or -C SIZE with -W N"),
    (
        &["-b", "--ring-buffer"],
        "write -C 10M for filesize, -G 1m for duration, --rotate-packets N for packets, -W N for \
         files",
    ),
    (&["-d", "-dd", "-ddd"], "write `wirelane filter -d EXPR`; -dd and -ddd work there, too"),
    (&["-E"], "write `-w - | tshark -r - -o …`, which decrypts"),
    (&["-g"], "write --group GROUP, or --mode 0640"),
    (&["-H"], "mesh headers: write `-w - | tcpdump -H -r -`"),
    (&["-I", "--monitor-mode"], "write `iw dev IF set type monitor` before"),
    (
        &["-J", "--list-time-stamp-types"],
        "times are the kernel's; `wirelane ports xdp` has those of the hardware",
    ),
    (
        &["-j", "--time-stamp-type"],
        "times are the kernel's; 'xdp:IF?rx_timestamps=on' has those of the hardware",
    ),
    (&["-k"], "write `iw dev IF set channel N` before"),
    (
        &["-L", "--list-data-link-types"],
        "leave it out: each interface has one link type, and -y names it",
    ),
    (&["-m", "-M", "-T"], "write `-w - | tshark -r -`, which has every protocol"),
    (&["-N"], "leave it out: names are never looked up"),
    (&["-P"], "write -w NAME.pcap: the suffix chooses the format"),
    (&["--capture-comment"], "write --comment TEXT"),
    (&["-u"], "write `-w - | tcpdump -u -r -`"),
    (&["-V"], "write `wirelane merge A B -w - | wirelane capture file:-`"),
    (
        &["-z", "--postrotate-command"],
        "write -w NAME.pcapng.zst to compress; for other commands watch the directory (inotifywait \
         -e close_write)",
    ),
    (&["--lengths", "--skip"], "write `-w - | tcpdump -r -` with it"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_stands_once() {
        let options: Vec<_> = INSTEAD.iter().flat_map(|(options, _)| *options).collect();
        for (place, option) in options.iter().enumerate() {
            assert!(!options[..place].contains(option), "{option}");
            assert!(instead_of(option).is_some());
        }
        assert_eq!(instead_of("--frobnicate"), None);
    }
}
