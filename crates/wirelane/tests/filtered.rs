//! Ports with a filter: delivered packets, counters, and a change of the filter while packets
//! arrive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wirelane::filter::Filter;
use wirelane::internal::sim::Stream;
use wirelane::port::{self, OpenOptions, Port, Rx};
use wirelane::{Result, pipeline};

fn open(spec: &str, filter: Option<&str>) -> Port {
    let filter = filter.map(|text| text.parse().expect("any text is a filter"));
    let options = OpenOptions::default().filter(filter);
    port::open(&spec.parse().expect("a spec"), &options).expect("a port")
}

/// Receives every queue until its end in a separate thread, and returns the number of packets of
/// each.
fn receive(rx: Vec<Rx>, each: impl Fn(&[u8]) + Sync) -> Vec<u64> {
    thread::scope(|scope| {
        let threads: Vec<_> = rx
            .into_iter()
            .map(|rx| {
                let each = &each;
                scope.spawn(move || {
                    let (mut packets, counters) = (0, rx.counters().clone());
                    pipeline::run(&mut [rx], |_, batch| {
                        batch.iter().for_each(|frame| each(frame.data()));
                        packets += batch.len() as u64;
                        Ok(())
                    })
                    .expect("nothing fails");
                    let stats = counters.snapshot(0);
                    assert_eq!(stats.packets, packets, "{stats:?}");
                    assert_eq!(stats.received, stats.filtered.map(|filtered| filtered + packets));
                    packets
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn a_simulated_port_delivers_what_matches_and_counts_the_rest() {
    let spec = "sim:3?count=30000&proto=mix&size=imix";
    let mut port = open(spec, Some("tcp and greater 100"));
    let rx = port.rx().unwrap();
    let counters: Vec<_> = rx.iter().map(|rx| rx.counters().clone()).collect();
    port.start().expect("it starts");
    let packets: u64 = receive(rx, |data| {
        assert!(data.len() >= 100 && data[23] == 6, "{} bytes", data.len());
    })
    .iter()
    .sum();
    let stream = Stream::new(&spec.parse().expect("a spec")).expect("a stream");
    let expected = (0..30_000).filter(|k| {
        let packet = stream.packet(*k);
        packet.bytes.len() >= 100 && packet.bytes[23] == 6
    });
    assert_eq!(packets, expected.count() as u64);
    let filtered: u64 = counters.iter().map(|counters| counters.filtered.value()).sum();
    assert_eq!(packets + filtered, 30_000);
    assert_eq!(port.frames().held(), 0);
}

#[test]
fn without_a_filter_nothing_is_filtered() {
    let mut port = open("sim:2?count=5000", None);
    let rx = port.rx().unwrap();
    port.start().expect("it starts");
    assert_eq!(receive(rx, |_| {}).iter().sum::<u64>(), 5000);
}

#[test]
fn a_wrong_filter_does_not_open() {
    for (filter, message) in [
        ("tcp prot 80", "syntax error at \"prot\""),
        ("3,6 0 0 1", "declares 3 instructions and has 1"),
        ("2,5 0 0 7,6 0 0 1", "skips 7 instructions, and 1 follow"),
        ("2,32 0 0 4294963236,22 0 0 0", "only the kernel's socket filter knows cpu"),
    ] {
        let filter: Filter = filter.parse().expect("any text is a filter");
        let options = OpenOptions::default().filter(filter);
        let opened = port::open(&"sim:1".parse().expect("a spec"), &options);
        let error = opened.err().expect("it is refused").to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// Each packet is matched by the old or the new filter, never by none and never by a mixture.
#[test]
fn a_filter_changes_while_packets_come() -> Result<()> {
    let filters: [Filter; 2] = ["udp src port 0 or tcp".parse()?, "udp".parse()?];
    let mut port = open("sim:2?proto=mix&ip=4", Some("tcp"));
    let (rx, control) = (port.rx().unwrap(), port.control());
    port.start()?;
    let (tcp, udp) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| -> Result<()> {
        let receiver = scope.spawn(|| {
            receive(rx, |data| match data[23] {
                6 => tcp.store(true, Ordering::Relaxed),
                17 => udp.store(true, Ordering::Relaxed),
                other => panic!("protocol {other}"),
            })
        });
        for round in 0..100 {
            control.set_filter(Some(&filters[round % 2]))?;
            let expected = [&tcp, &udp][round % 2];
            expected.store(false, Ordering::Relaxed);
            while !expected.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        }
        let wrong: Filter = "udp prot".parse()?;
        assert!(control.set_filter(Some(&wrong)).is_err());
        control.set_filter(None)?;
        control.stop();
        assert!(receiver.join().expect("no panic").iter().sum::<u64>() > 0);
        Ok(())
    })?;
    assert_eq!(port.frames().held(), 0);
    Ok(())
}

#[test]
fn privileged_what_a_port_takes_is_known_through_a_filter() {
    if !wirelane_testkit::privileged::require() {
        return;
    }
    let ns = wirelane_testkit::netns::Namespace::new();
    let spec = "tap:wl-t?mtu=1400".parse().unwrap();
    let options = OpenOptions::default().transmit(true);
    let port = ns.inside(|| port::open(&spec, &options)).unwrap();
    let sink = port.sink();
    assert_eq!((sink.mtu, sink.checksum, sink.gso.tcp4), (1400, true, true));
}
