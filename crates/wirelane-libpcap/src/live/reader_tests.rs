use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use wirelane::port::{self, OpenOptions, Rx};

use super::*;
use crate::live::merge::WaitLimits;
use crate::live::script::{Script, Scripted};

const ALL: ReadRequest = ReadRequest { count: usize::MAX, nonblock: false, insists: true };
const NOW: ReadRequest = ReadRequest { nonblock: true, ..ALL };

fn reader(ends: Vec<Rx>, precision: TimestampPrecision) -> PacketReader {
    let bounds = WaitLimits {
        ring: 1 << 30,
        wait: Duration::MAX,
        nap: Duration::from_millis(8),
        disorder: WaitLimits::DISORDER,
        sleeps: true,
    };
    let port = port::open(&"sim:1".parse().unwrap(), &OpenOptions::default()).unwrap();
    let status = Arc::new(Mutex::new(Status::new("sim:1", port.info(), &ends)));
    PacketReader::new(RxMerger::new(ends, bounds), precision, status, Arc::default())
}

/// The times of the packets read, and the outcome as text.
fn read(reader: &PacketReader, request: ReadRequest, breaker: &Breaker) -> (Vec<u64>, String) {
    let mut times = Vec::new();
    let outcome = reader.read(request, breaker, |_, bytes| {
        times.push(u64::from_be_bytes(bytes.try_into().unwrap()));
    });
    (times, format!("{outcome:?}"))
}

fn open_end(times: &[u64]) -> (Scripted, Rx) {
    Scripted::new(Script { ready: times.iter().copied().collect(), ..Script::default() })
}

#[test]
fn as_many_as_asked_for() {
    let (_, ends) = Scripted::all(&[&[1, 3, 5], &[2, 4]]);
    let (reader, breaker) = (reader(ends, TimestampPrecision::Micro), Breaker::new());
    let two = ReadRequest { count: 2, ..ALL };
    assert_eq!(read(&reader, two, &breaker), (vec![1, 2], "Read(2)".into()));
    assert_eq!(read(&reader, ALL, &breaker), (vec![3, 4, 5], "Read(3)".into()));
    assert_eq!(read(&reader, ALL, &breaker), (vec![], "End".into()));
    assert_eq!(read(&reader, NOW, &breaker), (vec![], "End".into()));
}

#[test]
fn what_there_is_without_waiting() {
    let (script, end) = open_end(&[1, 2]);
    let (reader, breaker) = (reader(vec![end], TimestampPrecision::Micro), Breaker::new());
    assert_eq!(read(&reader, NOW, &breaker), (vec![1, 2], "Read(2)".into()));
    assert_eq!(read(&reader, NOW, &breaker), (vec![], "Read(0)".into()));
    // libpcap looks at the breaker when it waits, or has packets.
    breaker.raise();
    assert_eq!(read(&reader, NOW, &breaker), (vec![], "Read(0)".into()));
    script.set().ready.push_back(3);
    assert_eq!(read(&reader, NOW, &breaker), (vec![], "Broken".into()));
    assert_eq!(read(&reader, NOW, &breaker), (vec![3], "Read(1)".into()));
}

#[test]
fn a_wait_ends_with_a_packet() {
    let (script, end) = open_end(&[]);
    let (reader, breaker) = (reader(vec![end], TimestampPrecision::Micro), Breaker::new());
    thread::scope(|scope| {
        let reading = scope.spawn(|| read(&reader, ALL, &breaker));
        thread::sleep(Duration::from_millis(20));
        script.set().ready.push_back(7);
        script.wake();
        assert_eq!(reading.join().unwrap(), (vec![7], "Read(1)".into()));
    });
}

#[test]
fn a_wait_ends_with_the_breaker_from_another_thread_or_before() {
    let (_script, end) = open_end(&[]);
    let (reader, breaker) = (reader(vec![end], TimestampPrecision::Micro), Breaker::new());
    thread::scope(|scope| {
        let reading = scope.spawn(|| read(&reader, ALL, &breaker));
        thread::sleep(Duration::from_millis(20));
        breaker.raise();
        assert_eq!(reading.join().unwrap().1, "Broken");
    });
    breaker.raise();
    assert_eq!(read(&reader, ALL, &breaker).1, "Broken");
    assert!(!breaker.is_raised());
}

#[test]
fn a_callback_breaks_behind_its_packet() {
    let (_, ends) = Scripted::all(&[&[1, 3, 5], &[2, 4]]);
    let (reader, breaker) = (reader(ends, TimestampPrecision::Micro), Breaker::new());
    let mut count = 0;
    let outcome = reader.read(ALL, &breaker, |_, _| {
        count += 1;
        breaker.raise();
    });
    assert!(matches!(outcome, ReadEnd::Broken));
    assert_eq!(count, 1);
    assert_eq!(read(&reader, ALL, &breaker).0, [2, 3, 4, 5]);
}

#[test]
fn a_stale_wake_up_of_the_breaker_does_not_spin() {
    let (script, end) = open_end(&[]);
    let (reader, breaker) = (reader(vec![end], TimestampPrecision::Micro), Breaker::new());
    breaker.raise();
    assert!(breaker.take());
    breaker.raise();
    // As if the flag was taken between the two steps of raising it.
    script.set().ready.push_back(1);
    assert_eq!(read(&reader, ALL, &breaker).1, "Broken");
    assert_eq!(read(&reader, ALL, &breaker), (vec![1], "Read(1)".into()));
}

#[test]
fn a_sift_is_for_packets_of_before() {
    let (script, end) = open_end(&[1, 2, 3, 4, 5]);
    let (reader, breaker) = (reader(vec![end], TimestampPrecision::Micro), Breaker::new());
    let odd = Sift { until: 4, accepts: Box::new(|frame| frame.timestamp() % 2 == 1) };
    let mut odd = Some(odd);
    let mut times = Vec::new();
    let sifts = Arc::clone(&reader.sifts);
    let outcome = reader.read(ALL, &breaker, |header, _| {
        times.push(header.captured);
        // From the next packet on.
        if let Some(odd) = odd.take() {
            sifts.set(Some(odd));
        }
    });
    assert!(matches!(outcome, ReadEnd::Read(3)), "1, 3 and 5: {outcome:?}");
    script.set().ready.extend([4, 6]);
    assert_eq!(read(&reader, ALL, &breaker).0, [6]);
    // With a timeout, a wait ends after packets that the filter rejects.
    script.set().ready.push_back(2);
    let patient = ReadRequest { insists: false, ..ALL };
    assert_eq!(read(&reader, patient, &breaker), (vec![], "Read(0)".into()));
    sifts.set(None);
    script.set().ready.push_back(2);
    assert_eq!(read(&reader, ALL, &breaker).0, [2]);
}

#[test]
fn one_packet_stays_until_the_next() {
    let (_, ends) = Scripted::all(&[&[1_000_000_007, 2_500_000_000]]);
    let (reader, breaker) = (reader(ends, TimestampPrecision::Nano), Breaker::new());
    let next = || {
        let mut packet = None;
        let outcome = reader.read_one(ALL, &breaker, |header, bytes| {
            packet = Some((*header, bytes.to_vec()));
        });
        packet.ok_or(format!("{outcome:?}"))
    };
    let (first, bytes) = next().unwrap();
    assert_eq!((first.time.tv_sec, first.time.tv_usec), (1, 7));
    assert_eq!((first.captured, first.original), (8, 8));
    assert_eq!(bytes, 1_000_000_007_u64.to_be_bytes());
    assert_eq!(next().unwrap().0.time.tv_usec, 500_000_000);
    assert_eq!(next().unwrap_err(), "End");
}

#[test]
fn times_are_divided() {
    let (_, ends) = Scripted::all(&[&[999_999_999, 1_000_000_000, 3_000_001_999, 5]]);
    let (reader, breaker) = (reader(ends, TimestampPrecision::Micro), Breaker::new());
    let mut times = Vec::new();
    reader.read(ALL, &breaker, |header, _| times.push((header.time.tv_sec, header.time.tv_usec)));
    assert_eq!(times, [(0, 999_999), (1, 0), (3, 1), (0, 0)]);
}

#[test]
fn a_failure_is_said_each_time() {
    let (script, end) = open_end(&[1]);
    script.set().fails = true;
    let (reader, breaker) = (reader(vec![end], TimestampPrecision::Micro), Breaker::new());
    assert_eq!(read(&reader, ALL, &breaker), (vec![1], "Read(1)".into()));
    let failed = r#"Failed("script: it fails")"#;
    assert_eq!(read(&reader, ALL, &breaker), (vec![], failed.into()));
    assert_eq!(read(&reader, NOW, &breaker), (vec![], failed.into()));
}

/// Whether the descriptor is readable, now or within a time.
fn is_readable(reader: &PacketReader, timeout_ms: u64) -> bool {
    // SAFETY: no thread reads.
    let selectable = unsafe { &*reader.desk.get() }.selectable.as_ref().unwrap();
    watch::wait(&[selectable.as_fd()], Some(Duration::from_millis(timeout_ms))).unwrap()
}

#[test]
fn the_descriptor_is_readable_while_there_is_something() {
    let (script, end) = open_end(&[]);
    let (silent, other) = open_end(&[]);
    let (reader, breaker) = (reader(vec![end, other], TimestampPrecision::Micro), Breaker::new());
    assert_eq!(reader.selectable().unwrap(), reader.selectable().unwrap());
    assert!(!is_readable(&reader, 0));
    script.set().ready.extend([1, 2]);
    script.wake();
    assert!(is_readable(&reader, 1000));
    // They wait for the other end.
    assert_eq!(read(&reader, NOW, &breaker).1, "Read(0)");
    assert!(!is_readable(&reader, 0), "the ring itself stays readable");
    silent.set().watermark = 5;
    assert!(is_readable(&reader, 1000));
    assert_eq!(read(&reader, ReadRequest { count: 1, ..NOW }, &breaker).0, [1]);
    assert!(is_readable(&reader, 0), "the second one");
    assert_eq!(read(&reader, NOW, &breaker).0, [2]);
    script.set().ends = true;
    silent.set().ends = true;
    assert!(is_readable(&reader, 0), "its ring is");
    assert_eq!(read(&reader, NOW, &breaker).1, "End");
    assert!(is_readable(&reader, 0), "so that the program sees the end");
}

#[test]
fn a_callback_may_read_and_nothing_comes_twice() {
    let (_, ends) = Scripted::all(&[&[1, 2, 3, 4, 5, 6]]);
    let (reader, breaker) = (reader(ends, TimestampPrecision::Micro), Breaker::new());
    let mut times = Vec::new();
    let outcome = reader.read(ALL, &breaker, |_, bytes| {
        times.push(u64::from_be_bytes(bytes.try_into().unwrap()));
        if times.len() == 2 {
            let two = ReadRequest { count: 2, ..ALL };
            times.extend(read(&reader, two, &breaker).0);
        }
    });
    assert_eq!((times, format!("{outcome:?}")), (vec![1, 2, 3, 4, 5, 6], "Read(4)".into()));
}

#[test]
fn one_thread_reads_and_a_panic_gives_it_back() {
    let (_, ends) = Scripted::all(&[&[1, 2, 3]]);
    let (reader, breaker) = (reader(ends, TimestampPrecision::Micro), Breaker::new());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        reader.read(ALL, &breaker, |_, _| {
            thread::scope(|scope| {
                let other = scope.spawn(|| read(&reader, NOW, &breaker).1);
                assert_eq!(other.join().unwrap(), format!("Failed({ELSEWHERE:?})"));
            });
            panic!("on purpose");
        })
    }));
    assert!(panic.is_err());
    thread::scope(|scope| {
        let other = scope.spawn(|| read(&reader, NOW, &breaker).0);
        assert_eq!(other.join().unwrap(), [2, 3]);
    });
}

#[test]
fn a_call_ends_while_packets_never_do() {
    let endless = "sim:2?rate=max".parse().unwrap();
    let mut port = port::open(&endless, &OpenOptions::default()).unwrap();
    let reader = reader(port.rx().unwrap(), TimestampPrecision::Micro);
    let breaker = Breaker::new();
    port.start().unwrap();
    let patient = ReadRequest { insists: false, ..ALL };
    let read = |request| match reader.read(request, &breaker, |_, _| {}) {
        ReadEnd::Read(count) => count,
        other => panic!("{other:?}"),
    };
    for request in [ALL, NOW, patient] {
        let count = read(request);
        assert!((BUFFER..2 * BUFFER).contains(&count), "{request:?}: {count}");
    }
    // Also if none of them is for the program.
    reader.sifts.set(Some(Sift { until: u64::MAX, accepts: Box::new(|_| false) }));
    for request in [NOW, patient, ReadRequest { count: 1, ..NOW }] {
        assert_eq!(read(request), 0, "{request:?}");
    }
}
