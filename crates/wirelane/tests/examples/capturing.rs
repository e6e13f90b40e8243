//! Programs that receive: `dns_log`, `syn_comments`, `custom_source`, `rate_meter`, `live_flows`,
//! `recorder`, `manual_masks`, `several_ports`.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::tempdir;
use wirelane::pcap::{CaptureReader, CaptureWriter, Class, Record, Source, WriterOptions, pcapng};
use wirelane::wire::packet::{self, Packet};
use wirelane::wire::{MacAddr, Tcp, TcpFlags};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, run};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use crate::forwarding::Network;
use crate::{PATIENCE, example, interrupted, printed};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const LINK: packet::Link = packet::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));

/// Writes a capture file with one packet per second from second 1000 on.
fn capture_file(path: &Path, packets: &[Packet<'_>]) {
    let sources = [Source::new("eth0", Class::Rx, Some(0))];
    let mut writer =
        CaptureWriter::create(path, &sources, WriterOptions::of_path(path), 0).unwrap();
    for (second, packet) in (1000..).zip(packets) {
        let mut data = vec![0; packet.len()];
        packet.emit(&mut data).unwrap();
        let record = Record {
            interface: 0,
            timestamp: second * 1_000_000_000,
            original_len: data.len() as u32,
            direction: Default::default(),
            data: &data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// A DNS message with one question: for `www.example.org`.
fn dns(flags: u16, kind: u8, answers: u8) -> Vec<u8> {
    let [high, low] = flags.to_be_bytes();
    let mut message = vec![0, 7, high, low, 0, 1, 0, answers, 0, 0, 0, 0];
    message.extend(b"\x03www\x07example\x03org\x00\x00");
    message.extend([kind, 0, 1]);
    message
}

#[test]
fn dns_log_prints_queries_and_answers() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("dns.pcapng");
    let [query, answer] = [dns(0x0100, 1, 0), dns(0x8180, 1, 2)];
    let [query6, missing] = [dns(0x0100, 28, 0), dns(0x8183, 28, 0)];
    let (there, back) = (LINK.ipv4(HOST, SERVER), LINK.ipv4(SERVER, HOST));
    capture_file(
        &path,
        &[
            there.udp(4000, 53, &query),
            back.udp(53, 4000, &answer),
            there.udp(4000, 80, &query),
            there.udp(4000, 53, &query6),
            back.udp(53, 4000, &missing),
            // Not a message.
            back.udp(53, 4000, b"short"),
        ],
    );
    let text = printed("dns_log", &[&format!("file:{}", path.display())]);
    let lines = [
        "1000.000000 10.0.0.1 www.example.org. A query",
        "1001.000000 10.0.0.1 www.example.org. A 2 answers",
        "1003.000000 10.0.0.1 www.example.org. AAAA query",
        "1004.000000 10.0.0.1 www.example.org. AAAA error 3",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn syn_comments_describes_each_connection() {
    let directory = tempdir().unwrap();
    let [input, result] = ["in.pcapng", "out.pcapng"].map(|name| directory.path().join(name));
    let tcp = |port, flags| Tcp { flags, sequence: 7, ..Tcp::between(port, 80) };
    let (there, ack) = (LINK.ipv4(HOST, SERVER), TcpFlags::ACK);
    capture_file(
        &input,
        &[
            there.tcp(tcp(4000, TcpFlags::SYN), b""),
            there.tcp(tcp(4000, ack), b"data"),
            LINK.ipv4(SERVER, HOST).tcp(tcp(80, TcpFlags::SYN.with(ack)), b""),
            there.tcp(tcp(4001, TcpFlags::SYN), b""),
        ],
    );
    let port = format!("file:{}", input.display());
    let text = printed("syn_comments", &[&port, result.to_str().unwrap()]);
    assert!(text.starts_with("2 SYN packets in "), "{text}");
    let mut reader = CaptureReader::open(&result).unwrap();
    for (port, time) in [(4000, 1000), (4001, 1003)] {
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(record.timestamp, time * 1_000_000_000);
        let comment = pcapng::options(reader.options()).find(|(code, _)| *code == 1).unwrap();
        let comment = String::from_utf8(comment.1.to_vec()).unwrap();
        let start = format!("10.0.0.1:{port} > 192.0.2.53:80 tcp: sequence 7, window ");
        assert!(comment.starts_with(&start), "{comment}");
    }
    assert!(reader.next_record().unwrap().is_none());
}

#[test]
fn live_flows_prints_both_directions() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("flows.pcapng");
    let (there, back) = (LINK.ipv4(HOST, SERVER), LINK.ipv4(SERVER, HOST));
    capture_file(
        &path,
        &[
            there.udp(4000, 53, b"question"),
            back.udp(53, 4000, b"answer"),
            there.udp(4000, 53, b"question"),
        ],
    );
    let text = printed("live_flows", &[&format!("file:{}", path.display())]);
    let lines = [
        "udp 10.0.0.1:4000 > 192.0.2.53:53 2.000 s, 2 packets and 72 bytes there, 1 and 34 back",
        "3 packets in 1 flows",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn rate_meter_prints_the_rate_of_each_queue() {
    let text = printed("rate_meter", &["sim:2?rate=1kpps&count=2500&size=100"]);
    let rates = |queue: &str| -> Vec<f64> {
        let lines = text.lines().filter(|line| line.starts_with(&format!("rx      {queue}")));
        let rates = lines.filter_map(|line| line.split_whitespace().nth(2));
        rates.map(|rate| rate.parse().unwrap()).collect()
    };
    // Whole seconds; the last line is for the rest.
    let (first, second) = (rates("0"), rates("1"));
    assert!(first.len() == second.len() && first.len() >= 3, "{text}");
    assert!((800.0..=1200.0).contains(&(first[1] + second[1])), "{text}");
    let totals = text.lines().filter_map(|line| line.strip_prefix("port 0 rx "));
    let totals = totals.map(|line| line.split_whitespace().nth(1).unwrap());
    let totals: u64 = totals.map(|packets| packets.parse::<u64>().unwrap()).sum();
    assert_eq!(totals, 2500, "{text}");
}

#[test]
fn custom_source_receives_mirrored_frames() {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    // A free port: the kernel does not give it to others at once.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let directory = tempdir().unwrap();
    let path = directory.path().join("mirrored.pcapng");
    let mut command = Command::new(example("custom_source"));
    let mut program = ChildGuard::spawn(command.arg(address.to_string()).arg(&path));
    let packet = LINK.ipv4(HOST, SERVER).udp(4000, 53, b"mirrored");
    let mut datagram = vec![0; 8 + packet.len()];
    packet.emit(&mut datagram[8..]).unwrap();
    datagram[0] = 8;
    // The program writes each second. Its socket may not be bound yet.
    program.wait_until(PATIENCE, |_| {
        let _ = sender.send_to(&datagram, address);
        fs::metadata(&path).is_ok_and(|file| file.len() > 2000)
    });
    let ended = interrupted(program);
    let mut reader = CaptureReader::open(&path).unwrap();
    let mut count = 0;
    while let Some(record) = reader.next_record().unwrap() {
        assert_eq!(record.data, &datagram[8..]);
        count += 1;
    }
    assert!(
        ended.stdout.starts_with(&format!("port 0 rx 0: {count} packets, ")),
        "{}",
        ended.stdout
    );
    assert_eq!(reader.interfaces()[0].name, "mirror");
}

/// Bytes and packets of the files in a store.
fn stored(directory: &Path) -> (u64, usize) {
    let (mut bytes, mut packets) = (0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        bytes += entry.metadata().unwrap().len();
        if entry.path().extension().is_some_and(|suffix| suffix == "pcapng") {
            let mut reader = CaptureReader::open(entry.path()).unwrap();
            while reader.next_record().unwrap().is_some() {
                packets += 1;
            }
        }
    }
    (bytes, packets)
}

#[test]
fn recorder_keeps_the_newest_packets() {
    let directory = tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let text = printed("recorder", &["sim:1?count=100000&size=1000", path, "50"]);
    assert!(text.contains("port 0 rx 0: 100000 packets, "), "{text}");
    assert!(text.contains("\n100000 packets written, ") && !text.contains(" 0 segments"), "{text}");
    let (bytes, packets) = stored(directory.path());
    assert!(bytes <= 50_000_000 && (10_000..100_000).contains(&packets), "{bytes}, {packets}");
}

#[test]
fn privileged_recorder_records_an_interface() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let port = format!("packet:{}", pair.b.interface);
    let path = directory.path().to_str().unwrap();
    let mut recorder = far.spawn(example("recorder"), [&port, path, "100"]);
    let sink = far.inside(|| UdpSocket::bind((pair.b.address, 0)).unwrap());
    let socket = near.inside(|| UdpSocket::bind((pair.a.address, 0)).unwrap());
    recorder.wait_until(PATIENCE, |it| it.stdout().starts_with("recording into"));
    for _ in 0..300 {
        socket.send_to(&[0; 500], sink.local_addr().unwrap()).unwrap();
    }
    thread::sleep(Duration::from_millis(200));
    let ended = interrupted(recorder);
    assert!(ended.stdout.contains("\n300 packets written, "), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(stored(directory.path()).1, 300);
}

#[test]
fn privileged_manual_masks_selects_queues() {
    if !privileged::require() {
        return;
    }
    let (ns, directory) = (Namespace::new(), tempdir().unwrap());
    let tap = MultiQueueTap::new(&ns, "tap0", 4);
    let fifo = directory.path().join("input");
    run(Command::new("mkfifo").arg(&fifo));
    let script = "exec \"$0\" packet:tap0 < \"$1\"";
    let program = example("manual_masks");
    let args = ["-c".as_ref(), script.as_ref(), program.as_os_str(), fifo.as_os_str()];
    let mut program = ns.spawn("bash", args);
    let mut input = File::options().write(true).open(&fifo).unwrap();
    let last = |text: String| text.lines().last().map(str::to_owned);
    program.wait_until(PATIENCE, |it| {
        last(it.stdout()).is_some_and(|line| line == "mask: rx 0,2 tx none other off")
    });
    let send = |packets_each: usize| {
        for (queue, count) in (0..4).map(|queue| (queue, packets_each * (queue + 1))) {
            (0..count).for_each(|sequence| tap.write(queue, &packets::raw(sequence as u64)));
        }
        thread::sleep(Duration::from_millis(300));
    };
    send(10);
    writeln!(input, "1,3").unwrap();
    program.wait_until(PATIENCE, |it| {
        last(it.stdout()).is_some_and(|line| line == "mask: rx 1,3 tx none other off")
    });
    send(100);
    writeln!(input, "nonsense").unwrap();
    program.wait_until(PATIENCE, |it| it.stdout().matches("mask: ").count() == 3);
    drop(input);
    let ended = program.wait(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let totals: Vec<_> =
        ended.stdout.lines().rev().take_while(|it| it.starts_with("port")).collect();
    for (queue, packets) in [(0, 10), (1, 200), (2, 30), (3, 400)] {
        let start = format!("port 0 rx {queue}: {packets} packets,");
        assert!(totals.iter().any(|line| line.starts_with(&start)), "{start}\n{}", ended.stdout);
    }
}

#[test]
fn privileged_several_ports_are_merged_by_time() {
    if !privileged::require() {
        return;
    }
    let (network, directory) = (Network::new(), tempdir().unwrap());
    let path = directory.path().join("all.pcapng");
    let [first, second] = network.ports();
    let args = [path.as_os_str(), first.as_ref(), second.as_ref()];
    let mut program = network.middle.spawn(example("several_ports"), args);
    program.wait_until(PATIENCE, |_| path.is_file());
    thread::sleep(Duration::from_millis(500));
    let sender = |ns: &Namespace, address: &str| {
        let socket = ns.inside(|| UdpSocket::bind((address, 0)).unwrap());
        socket.set_broadcast(true).unwrap();
        socket
    };
    let senders = [sender(&network.left, "10.99.0.1"), sender(&network.right, "10.99.0.2")];
    for number in 0..100_u8 {
        let sender = &senders[usize::from(number % 2)];
        sender.send_to(&[number; 50], ("10.99.0.255", 9)).unwrap();
    }
    thread::sleep(Duration::from_millis(300));
    let ended = interrupted(program);
    assert!(ended.stdout.contains("\n100 packets, "), "{}", ended.stdout);
    let mut reader = CaptureReader::open(&path).unwrap();
    let (mut numbers, mut times) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        numbers.push(record.data[42]);
        times.push(record.timestamp);
        let name = &reader.interfaces()[reader.current().interface as usize].name;
        let ends = [&first, &second].map(|spec| spec.strip_prefix("packet:").unwrap());
        assert_eq!(name, ends[usize::from(reader.current().data[42] % 2)]);
    }
    assert!(times.is_sorted());
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}
