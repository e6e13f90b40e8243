//! Many packets, several threads, and real protocols: the counters add up.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use wirelane::Frame;
use wirelane::mask::Class;
use wirelane::port::OpenOptions;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

/// Receives until the end, waits as the port reports, and passes every frame to `sink`.
fn receive_all(rx: &mut Rx, mut sink: impl FnMut(Frame)) {
    let mut batch = Batch::new(64);
    loop {
        if rx.receive(&mut batch) > 0 {
            let n = batch.len();
            batch.drain(n).for_each(&mut sink);
            continue;
        }
        match rx.readiness().unwrap() {
            Readiness::Now | Readiness::Soon(..) => {}
            Readiness::After(time) => std::thread::sleep(time),
            Readiness::Descriptor(fd, time) => {
                let mut set = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
                let timeout = rustix::event::Timespec::try_from(time).unwrap();
                rustix::event::poll(&mut set, Some(&timeout)).unwrap();
            }
            Readiness::End => return,
        }
    }
}

/// Each queue is received in one thread. Another thread checks its frames and drops them out of
/// order, while the kernel fills small rings as fast as it can.
#[test]
fn privileged_frames_come_home_from_other_threads() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 40_000;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-thr", 2);
    let options = masked(mask(&[0, 1], &[], false));
    let mut port = open(&ns, "packet:wl-thr?ring=256Ki&block=32Ki&retire=1ms", &options).unwrap();
    let mut ends = port.rx().unwrap();
    ends.truncate(2);
    port.start().unwrap();
    let control = port.control();
    let length = |n: u64| 60 + (n * 7 % 600) as usize;
    std::thread::scope(|scope| {
        let receivers: Vec<_> = ends
            .iter_mut()
            .map(|rx| {
                let (give, take) = mpsc::channel::<Frame>();
                let checker = scope.spawn(move || {
                    let (mut held, mut seen) = (Vec::new(), Vec::new());
                    for frame in take {
                        let number = packets::sequence(frame.data()).unwrap();
                        let expected = packets::udp4(number).length(length(number)).build();
                        assert_eq!(frame.data(), expected);
                        seen.push(number);
                        held.push(frame);
                        if held.len() >= 50 {
                            held.swap_remove(seen.len() % 50);
                        }
                    }
                    seen
                });
                let receiver = scope.spawn(move || {
                    receive_all(rx, |frame| give.send(frame).unwrap());
                    rx.counters().snapshot(0)
                });
                (receiver, checker)
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|queue| {
                let tap = &tap;
                scope.spawn(move || {
                    for n in 0..SENT {
                        tap.write(queue, &packets::udp4(n).length(length(n)).build());
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        control.stop();
        for (receiver, checker) in receivers {
            let stats = receiver.join().unwrap();
            let seen = checker.join().unwrap();
            assert_eq!(stats.received, Some(SENT), "{stats:?}");
            assert_eq!(stats.packets, seen.len() as u64);
            assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
        }
    });
    assert_conserved(&port);
}

/// The states of the TCP connections over IPv4 in the namespace of the calling thread, as numbered
/// by the kernel.
fn connections() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let state = |line: &str| line.split_whitespace().nth(3).unwrap().to_owned();
    table.lines().skip(1).map(state).collect()
}

/// `TCP_TIME_WAIT` of the kernel's include/net/tcp_states.h.
const TIME_WAIT: &str = "06";

/// A TCP transfer between namespaces: the packets captured and lost are all packets that the device
/// counted.
#[test]
fn privileged_a_tcp_transfer_is_what_the_device_counts() {
    if privileged::require() {
        transfer("");
    }
}

/// The same with rings that deliver each packet at once; most of the frames are longer than a slot.
#[test]
fn privileged_a_tcp_transfer_one_by_one_is_what_the_device_counts() {
    if privileged::require() {
        transfer("?retire=0");
    }
}

fn transfer(query: &str) {
    const BYTES: usize = 20_000_000;
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let listener = far.inside(|| TcpListener::bind((pair.b.address, 0)).unwrap());
    let mut port =
        open(&far, &format!("packet:{}{query}", pair.b.interface), &OpenOptions::default())
            .unwrap();
    let ends = port.rx().unwrap();
    let before = ["rx_packets", "tx_packets"].map(|name| pair.b.statistic(name));
    port.start().unwrap();
    let receivers: Vec<_> = ends
        .into_iter()
        .map(|mut rx| {
            std::thread::spawn(move || {
                receive_all(&mut rx, drop);
                (rx.class(), rx.counters().snapshot(0))
            })
        })
        .collect();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    });
    let mut client = near.inside(|| TcpStream::connect(address).unwrap());
    client.write_all(&vec![7; BYTES]).unwrap();
    drop(client);
    assert_eq!(server.join().unwrap(), BYTES as u64);
    // The connection is silent when one end has no state of it and the other is in TIME_WAIT.
    assert!(eventually(|| far.inside(connections).is_empty()));
    assert!(eventually(|| near.inside(connections).iter().all(|state| state == TIME_WAIT)));
    port.control().stop();
    let after = ["rx_packets", "tx_packets"].map(|name| pair.b.statistic(name));
    let mut captured = [0; 2];
    for receiver in receivers {
        let (class, stats) = receiver.join().unwrap();
        captured[usize::from(class == Class::Tx)] += stats.received.unwrap();
        assert!(class != Class::Other || stats.received == Some(0));
    }
    assert_eq!(captured, [after[0] - before[0], after[1] - before[1]]);
    assert!(captured[0] > 300, "{captured:?}");
    assert_conserved(&port);
}
