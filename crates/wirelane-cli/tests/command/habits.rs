//! tcpdump's options work as in tcpdump.

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

use tempfile::{TempDir, tempdir};
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{privileged, process, tools};

use super::*;

const PORT: u16 = 4711;
const OTHER_PORT: u16 = 4712;
/// Packets each way to each port.
const COUNT: usize = 50;

/// tcpdump and Wirelane with the same options.
struct Both {
    options: Vec<String>,
    /// How many packets both must capture.
    expected: usize,
    tcpdump: ChildGuard,
    ours: Running,
    files: [PathBuf; 2],
}

impl Both {
    fn start(far: &Namespace, interface: &str, directory: &TempDir, which: usize) -> Self {
        let filter = directory.path().join("filter");
        fs::write(&filter, format!("udp\n  dst port {PORT} # and no other\n")).unwrap();
        let filter = filter.display().to_string();
        let file = |name: &str| directory.path().join(format!("{name}-{which}.pcap"));
        let files = [file("theirs"), file("ours")];
        let (options, expected) = OPTIONS[which];
        let options = options.iter().map(|word| word.replace("FILTER", &filter));
        let options: Vec<_> = options.collect();
        let mut command = far.command("tcpdump");
        // tcpdump cannot drop its privileges for a directory of root, and loses packets with small
        // buffers.
        command.args(["-Z", "root", "-s", "2000", "-B", "32768", "-U", "-i", interface, "-w"]);
        command.arg(&files[0]).args(&options);
        let tcpdump = ChildGuard::spawn(&mut command);
        let path = files[1].to_str().unwrap();
        let words = ["-U", "-i", interface, "-w", path].into_iter();
        let words: Vec<_> = words.chain(options.iter().map(String::as_str)).collect();
        Self { expected, tcpdump, ours: Running::start(Some(far), &words), options, files }
    }
}

/// Options, and how many of all packets they select.
const OPTIONS: [(&[&str], usize); 9] = [
    (&[], 4 * COUNT),
    (&["-Q", "in"], 2 * COUNT),
    (&["-Q", "out"], 2 * COUNT),
    (&["-Q", "inout"], 4 * COUNT),
    (&["-p", "-B", "4096"], 4 * COUNT),
    (&["-F", "FILTER"], 2 * COUNT),
    (&["--immediate-mode", "-y", "EN10MB"], 4 * COUNT),
    (&["-Q", "out", "-s", "60", "--time-stamp-precision", "micro"], 2 * COUNT),
    (&["-Q", "in", "-n", "-O", "udp", "dst", "port", "4712"], COUNT),
];

/// A packet of the test in a file, for comparison.
type Seen = (u32, Vec<u8>);

/// The packets whose payload has `mark`. The file may still be written.
fn marked(file: &Path, mark: &str) -> Vec<Seen> {
    if CaptureReader::open(file).is_err() {
        return Vec::new();
    }
    let is_marked =
        |packet: &Packet| packet.data.windows(mark.len()).any(|bytes| bytes == mark.as_bytes());
    let all = readable(file).0.into_iter().filter(is_marked);
    let mut all: Vec<_> = all.map(|packet| (packet.original_len, packet.data)).collect();
    all.sort();
    all
}

/// Sends packets both ways, to both ports.
fn talk(near: &Namespace, far: &Namespace, pair: &VethPair, mark: &str, count: usize) {
    let ways = [(near, far, pair.b.address), (far, near, pair.a.address)];
    for (from, to, address) in ways {
        for port in [PORT, OTHER_PORT] {
            let taker = to.inside(|| UdpSocket::bind((address, port)).unwrap());
            let sender = from.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
            for number in 0..count {
                sender.send_to(format!("{mark} {number:04}").as_bytes(), (address, port)).unwrap();
            }
            drop(taker);
        }
    }
}

#[test]
fn privileged_options_of_tcpdump_capture_the_same_packets() {
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let directory = tempdir().unwrap();
    let start = |which| Both::start(&far, &pair.b.interface, &directory, which);
    let all: Vec<_> = (0..OPTIONS.len()).map(start).collect();
    // tcpdump reports that it is ready before it sets its filter, so wait until it captures.
    let deadline = Instant::now() + PATIENCE;
    let wait_for = |mark: &str, count: fn(&Both) -> usize, again: &dyn Fn()| {
        for both in &all {
            for file in &both.files {
                loop {
                    let found = marked(file, mark).len();
                    if found >= count(both) {
                        break;
                    }
                    let options = &both.options;
                    assert!(Instant::now() < deadline, "{options:?}: {found} {mark} in {file:?}");
                    again();
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    };
    wait_for("sync", |_| 1, &|| talk(&near, &far, &pair, "sync", 1));
    talk(&near, &far, &pair, "mark", COUNT);
    wait_for("mark", |both| both.expected, &|| ());
    for Both { options, expected, tcpdump, ours, files } in all {
        for child in [tcpdump, ours.child] {
            child.interrupt();
            assert_eq!(child.wait(PATIENCE).status.code(), Some(0), "{options:?}");
        }
        let [theirs, ours] = files.map(|file| marked(&file, "mark"));
        assert_eq!(theirs.len(), expected, "{options:?}");
        assert!(ours == theirs, "{options:?}");
    }
}

#[test]
fn privileged_interfaces_are_listed_as_tcpdump_lists_them() {
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pairs = [(); 3].map(|()| VethPair::new(&near, &far, 1, 1500));
    far.run("ip", ["link", "set", &pairs[1].b.interface, "down"]);
    far.run("ip", ["link", "set", "lo", "up"]);
    let list = |program: &str, args: &[&str]| -> Vec<(String, String)> {
        let text = far.run(program, args);
        let lines = text.lines().map(|line| {
            let (number, rest) = line.split_once('.').unwrap();
            number.parse::<u32>().unwrap();
            let (name, states) = rest.rsplit_once('[').unwrap_or((rest, "]"));
            let name = name.split(' ').next().unwrap();
            // `Running` already reports the carrier.
            let known = ["Up", "Running", "Loopback"];
            let states = states.trim_end_matches(']').split(", ");
            let states: Vec<_> = states.filter(|state| known.contains(state)).collect();
            (name.to_owned(), states.join(", "))
        });
        // tcpdump also lists devices other than interfaces, such as nflog and USB buses.
        let is_interface = |(name, _): &(String, String)| {
            name == "lo" || name == "any" || pairs.iter().any(|pair| pair.b.interface == *name)
        };
        let mut all: Vec<_> = lines.filter(is_interface).collect();
        all.sort();
        all
    };
    let ours = list(WIRELANE, &["capture", "-D"]);
    assert_eq!(ours.len(), 5, "{ours:?}");
    assert_eq!(ours, list("tcpdump", &["-D"]));
    // A number selects the interface of the list.
    let text = far.run(WIRELANE, ["capture", "-D"]);
    let second = text.lines().find(|line| line.contains(&pairs[2].b.interface)).unwrap();
    let number = second.split('.').next().unwrap();
    let mut running = Running::start(Some(&far), &["-i", number]);
    talk(&near, &far, &pairs[2], "x", 1);
    running.wait_for(4);
    assert_eq!(running.finish()["ports"][0]["interface"], pairs[2].b.interface);
}

/// Without -U, packets are written with others or after a second.
#[test]
fn packets_are_written_as_they_come_if_that_is_asked_for() {
    let directory = tempdir().unwrap();
    let reads = |options: &[&str]| {
        let fifo = directory.path().join("fifo");
        process::run(Command::new("mkfifo").arg(&fifo));
        // 40 packets in two seconds.
        let mut command = wirelane(["capture", "-q", "sim:1?rate=20pps&count=40", "-w"]);
        let child = ChildGuard::spawn(command.arg(&fifo).args(options));
        let mut reader = File::open(&fifo).unwrap();
        let (mut bytes, mut reads) = (Vec::new(), 0);
        let mut some = vec![0; 1 << 20];
        loop {
            match reader.read(&mut some).unwrap() {
                0 => break,
                count => bytes.extend_from_slice(&some[..count]),
            }
            reads += 1;
        }
        assert_eq!(child.wait(PATIENCE).status.code(), Some(0));
        fs::remove_file(&fifo).unwrap();
        let file = directory.path().join("read.pcapng");
        fs::write(&file, bytes).unwrap();
        assert_eq!(packets(&file).len(), 40);
        reads
    };
    let (waiting, at_once) = (reads(&[]), reads(&["-U"]));
    assert!(waiting < at_once && at_once >= 8, "{waiting} and {at_once}");
}

#[test]
fn files_have_the_precision_that_is_asked_for() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let source = path("x.pcapng");
    capture(&["sim:1?count=100&rate=1Mpps", "-w", source.to_str().unwrap()]);
    let exact = packets(&source);
    assert!(exact.iter().any(|packet| packet.timestamp % 1000 != 0));
    let input = format!("file:{}", source.display());
    let (nano, micro) = (0xa1b2_3c4d_u32, 0xa1b2_c3d4_u32);
    for (name, options, magic, unit) in [
        ("a.pcap", &[][..], nano, 1),
        ("b.pcap", &["--time-stamp-precision", "nano"], nano, 1),
        ("c.pcap", &["--nano"], nano, 1),
        ("d.pcap", &["--time-stamp-precision", "micro"], micro, 1000),
        ("e.pcap", &["--micro"], micro, 1000),
        ("f.pcapng", &["--micro"], 0x0a0d_0d0a, 1),
    ] {
        capture(&[&[&input, "-w", path(name).to_str().unwrap()], options].concat());
        assert_eq!(fs::read(path(name)).unwrap()[..4], magic.to_ne_bytes(), "{name}");
        let found = packets(path(name));
        let times: Vec<_> = found.iter().map(|packet| packet.timestamp).collect();
        let rounded = exact.iter().map(|packet| packet.timestamp / unit * unit);
        assert!(rounded.eq(times), "{name}");
    }
}

#[test]
fn what_is_different_on_purpose_is_told() {
    for (args, parts) in [
        (&["-w", "x.pcap", "-C", "100"][..], &["100M", "tcpdump", "bytes"][..]),
        (&["-w", "x_%Y%m%d.pcap", "-G", "1m"], &["%Y", "-w NAME.pcapng"]),
        (&["-w", "x.pcap", "-z", "gzip"], &["-z", ".pcapng.zst"]),
    ] {
        refused(&[&["capture", "sim:1?count=1"], args].concat(), 2, parts);
    }
    for name in ["x.pcap.xz", "x.bz2"] {
        let parts = [name, "compression that is not written", ".zst"];
        refused(&["capture", "sim:1?count=1", "-w", name], 1, &parts);
    }
}

/// A plain number is in KiB, as in tcpdump, and each ring of a selected queue maps this size.
#[test]
fn privileged_the_buffer_size_is_that_of_a_ring() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "up"]);
    for (size, bytes) in [("4096", 4 << 20), ("8M", 8 << 20)] {
        let mut capture = Running::start(Some(&ns), &["-B", size, "lo"]);
        let maps = fs::read_to_string(format!("/proc/{}/maps", capture.child.id())).unwrap();
        let rings = maps.lines().filter(|line| line.contains("socket:[")).filter_map(|line| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            let [start, end] = [start, end].map(|place| u64::from_str_radix(place, 16).unwrap());
            Some(end - start)
        });
        let rings: Vec<_> = rings.collect();
        assert_eq!(rings, [bytes; 3], "RX, TX and OTHER: {maps}");
        // The capture works.
        let taker = ns.inside(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, PORT)).unwrap());
        for _ in 0..COUNT {
            taker.send_to(b"mark", (Ipv4Addr::LOCALHOST, PORT)).unwrap();
        }
        capture.wait_for(COUNT as u64);
        capture.finish();
    }
}
