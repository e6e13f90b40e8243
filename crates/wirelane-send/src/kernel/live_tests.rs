//! Schedules with a simulated clock, and frames through a veth pair.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt,
};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::{End, VethPair};
use wirelane_testkit::{packets, privileged};

use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_schedule_keeps_its_rate() {
    for rate in [1, 7, 1000, 500_000, 20_000_000] {
        let start = Instant::now();
        let mut schedule = LiveSchedule::new(rate, start);
        let (mut now, mut sent) = (start, 0);
        let end = start + Duration::from_secs(10);
        while now < end {
            match schedule.due(now) {
                Ok(due) => sent += due,
                Err(wait) => now += wait,
            }
        }
        let expected = 10 * rate;
        assert!(sent.abs_diff(expected) <= rate / 1000 + 1, "{sent} at {rate}");
    }
}

#[test]
fn a_schedule_does_not_make_up_for_a_long_stall() {
    let start = Instant::now();
    let mut schedule = LiveSchedule::new(1_000_000, start);
    assert_eq!(schedule.due(start), Err(MS / 2));
    assert_eq!(schedule.due(start + MS), Ok(1000));
    assert_eq!(schedule.due(start + 1001 * MS), Ok(10_000));
    assert_eq!(schedule.due(start + 1001 * MS), Err(MS / 2));
}

#[test]
fn words_that_differ() {
    assert!(differing_words::<&[u8]>(&[]).is_empty());
    assert!(differing_words(&[[0_u8; 18]; 3]).is_empty());
    let mut other = [0_u8; 18];
    (other[5], other[17]) = (1, 1);
    assert_eq!(differing_words(&[[0; 18], other]), [4, 14]);
    other[15] = 1;
    assert_eq!(differing_words(&[[0; 18], other]), [4, 12, 14]);
}

/// A veth pair whose end `b` runs NAPI, and a socket that receives the frames there.
fn lab() -> (Namespace, Namespace, VethPair, OwnedFd) {
    let (a, b) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&a, &b, 1, 9000);
    pair.b.ethtool(&["-K", &pair.b.interface, "gro", "on"]);
    let socket = b.inside(|| {
        let all = Protocol::from_raw(std::num::NonZero::new(u32::from(3_u16.to_be())).unwrap());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(all)).unwrap()
    });
    // Overrides the limit of the machine.
    sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    (a, b, pair, socket)
}

fn frame(pair: &VethPair, number: u64, length: usize) -> Vec<u8> {
    let ip = |end: &End| -> Ipv4Addr { end.address };
    packets::udp4(number)
        .macs(pair.a.mac, pair.b.mac)
        .addresses(ip(&pair.a), ip(&pair.b))
        .flow(number as u16)
        .length(length)
        .build()
}

/// Receives `count` frames, and any that arrive within 100 ms after them.
fn receive(socket: &OwnedFd, count: usize) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 10_000];
    let mut deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if received.len() == count {
            // Waits a little for surplus frames.
            deadline = deadline.min(Instant::now() + 100 * MS);
        }
        match recv(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            // Skips the host's ICMP errors for closed ports.
            Ok((_, length)) if packets::sequence(&buffer[..length]).is_none() => {}
            Ok((_, length)) => received.push(buffer[..length].to_vec()),
            Err(_) => thread::sleep(MS),
        }
    }
    received
}

#[test]
fn privileged_frames_carry_the_time_they_were_made() {
    if !privileged::require() {
        return;
    }
    let (a, b, pair, socket) = lab();
    let frames: Vec<_> = (0..3).map(|number| frame(&pair, number, 64)).collect();
    let before = clock::monotonic_ns();
    a.inside(|| {
        let mut sender = LiveSender::stamping(&pair.a.interface, &frames).unwrap();
        sender.send(6).unwrap();
    });
    let arrived = b.inside(|| receive(&socket, 6));
    let after = clock::monotonic_ns();
    assert_eq!(arrived.len(), 6);
    let mut last = before;
    for (bytes, sent) in arrived.iter().zip(frames.iter().cycle()) {
        assert_eq!(bytes[..56], sent[..56], "the rest is as it was");
        let stamp = u64::from_ne_bytes(*bytes.last_chunk().unwrap());
        assert!((last..after).contains(&stamp), "{last} {stamp} {after}");
        last = stamp;
    }
}

#[test]
fn privileged_frames_arrive_in_turn() {
    if !privileged::require() {
        return;
    }
    let (a, _b, pair, socket) = lab();
    for length in [60, 62, 1514, 3000] {
        let frames: Vec<_> = (0..5).map(|n| frame(&pair, n, length)).collect();
        let _inside = a.enter();
        let mut sender = LiveSender::new(&pair.a.interface, &frames).unwrap();
        sender.send(3).unwrap();
        assert_eq!(sender.sent(), 3);
        // The ring of a veth has 256 slots.
        let sent = sender.start(LivePace { count: Some(200), ..LivePace::default() }).unwrap();
        assert_eq!(sent.wait().unwrap().frames, 200);
        let received = receive(&socket, 203);
        assert_eq!(received.len(), 203);
        for (received, expected) in received.iter().zip(frames.iter().cycle()) {
            assert_eq!(received, expected);
        }
    }
}

#[test]
fn privileged_a_rate_is_kept_and_a_stop_obeyed() {
    if !privileged::require() {
        return;
    }
    let (a, _b, pair, _socket) = lab();
    let _inside = a.enter();
    let sender = || LiveSender::new(&pair.a.interface, &[frame(&pair, 1, 60)]).unwrap();
    // 1,000 frames at 10,000 per second take at least 99 ms.
    let pace = LivePace { count: Some(1000), rate: Some(10_000), cpu: Some(0) };
    let sent = sender().start(pace).unwrap().wait().unwrap();
    assert_eq!(sent.frames, 1000);
    assert!(sent.elapsed >= Duration::from_millis(98), "{sent:?}");

    let sending = sender().start(LivePace::default()).unwrap();
    while sending.sent() == 0 {
        thread::sleep(MS);
    }
    assert!(!sending.is_finished());
    let so_far = sending.sent();
    assert!(sending.stop().unwrap().frames >= so_far);
    drop(sender().start(LivePace::default()).unwrap());
}

#[test]
fn privileged_what_cannot_be_sent_is_said() {
    if !privileged::require() {
        return;
    }
    let (a, _b, pair, _socket) = lab();
    let _inside = a.enter();
    let interface = pair.a.interface.as_str();
    let error = |frames: &[Vec<u8>]| LiveSender::new(interface, frames).unwrap_err().to_string();
    let text = format!("{interface}: cannot send a frame of 0 bytes: it must have 14 to 9018");
    assert_eq!(error(&[]), text);
    assert!(error(&[vec![0; 9019]]).contains("9019 bytes"));
    assert!(error(&[vec![0; 60], vec![0; 61]]).contains("different lengths"));
    let error = LiveSender::new("no-such", &[[0; 60]]).unwrap_err().to_string();
    assert!(error.starts_with("no-such: "), "{error}");
    let error = LiveSender::new(interface, &[[0; 5000]]).unwrap().send(1).unwrap_err();
    assert!(error.to_string().contains("about 3500 bytes"), "{error}");
}
