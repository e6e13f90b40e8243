//! Negotiation: the mode that the port gets, and the reasons why it does not get the others.

use wirelane::ErrorKind;
use wirelane::port;
use wirelane_os::bpf;
use wirelane_testkit::privileged;

use wirelane::filter::Filter;

use super::*;

fn refused(ns: &Namespace, spec: &str, options: &OpenOptions) -> Error {
    match open(ns, spec, options) {
        Ok(_) => panic!("{spec} was opened"),
        Err(error) => error,
    }
}

#[test]
fn privileged_every_mode_is_tried_and_explained() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(2, 1500);
    let port = bench.far("", &receiving());
    let info = port.info();
    assert_eq!((info.backend.as_str(), info.mode.as_str()), ("xdp", "native"));
    assert_eq!(info.queues, [0, 1]);
    let attempts: Vec<_> = info
        .negotiation
        .iter()
        .map(|attempt| (attempt.way, attempt.succeeded, attempt.errno.as_deref()))
        .collect();
    let expected = [("xdp-zerocopy", false, Some("EOPNOTSUPP")), ("xdp-native", true, None)];
    assert_eq!(attempts, expected);
    let cause = info.negotiation[0].cause.as_deref().unwrap();
    assert!(cause.contains("veth has no zero copy"), "{cause}");
    drop(port);
    for mode in MODES {
        let port = bench.far(&format!("@1?mode={mode}"), &receiving());
        assert_eq!((port.info().mode.as_str(), port.info().queues.as_slice()), (mode, &[1][..]));
    }
    let spec = format!("xdp:{}?mode=zerocopy", bench.pair.b.interface);
    let error = refused(&bench.far, &spec, &receiving());
    assert!(error.to_string().contains("veth has no zero copy"), "{error}");
    assert!(error.errno().is_some());
}

#[test]
fn privileged_a_driver_without_programs_has_generic_mode() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(2, 1500);
    let interface = &bench.pair.b.interface;
    // The peer now has more TX queues than this end has RX queues, so veth accepts no native
    // program.
    bench.pair.b.ethtool(&["-L", interface, "rx", "1"]);
    let spec = format!("xdp:{interface}?mode=native");
    let error = refused(&bench.far, &spec, &receiving());
    assert!(error.next_step().unwrap().contains("as many RX queues"), "{error}");
    let port = bench.far("", &receiving());
    assert_eq!(port.info().mode, PortMode::Generic);
    assert_eq!(port.info().negotiation.len(), 3);
}

#[test]
fn privileged_a_program_that_is_there_is_named_and_left_alone() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let first = bench.far("", &receiving());
    let index = |ns: &Namespace, name: &str| ns.inside(|| wirelane_os::iface::index(name).unwrap());
    let index = index(&bench.far, &bench.pair.b.interface);
    let attached = || bench.far.inside(|| bpf::attached(index).unwrap());
    let before = attached().unwrap();
    let spec = format!("xdp:{}", bench.pair.b.interface);
    let error = refused(&bench.far, &spec, &receiving());
    assert!(error.cause().contains(before.name.as_deref().unwrap()), "{error}");
    assert_eq!(error.errno(), Some(rustix::io::Errno::BUSY.raw_os_error()));
    assert_eq!(attached().unwrap().id, before.id);
    // A port opened by a bare name falls back to AF_PACKET and reports why.
    let bare: Spec = bench.pair.b.interface.parse().unwrap();
    let port = bench.far.inside(|| port::open(&bare, &receiving()).unwrap());
    assert_eq!(port.info().backend, Backend::Packet);
    let attempts = &port.info().negotiation;
    assert_eq!(attempts.last().map(|attempt| attempt.way), Some("packet"));
    assert_eq!(attempts.len(), 4);
    assert!(attempts[1].cause.as_deref().unwrap().contains("already"), "{attempts:?}");
    drop((first, port));
    assert!(attached().is_none());
    let port = bench.far.inside(|| port::open(&bare, &receiving()).unwrap());
    assert_eq!((port.info().backend.as_str(), port.info().mode.as_str()), ("xdp", "native"));
}

#[test]
fn privileged_what_cannot_be_is_one_line_and_nothing_is_left() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 9000);
    let name = bench.pair.b.interface.as_str();
    let index = bench.far.inside(|| wirelane_os::iface::index(name).unwrap());
    let mask = |mask: QueueMask| receiving().mask(mask);
    let tx = QueueMask { tx: [0].into_iter().collect(), ..rx_mask(&[0]) };
    let other = QueueMask { other: true, ..rx_mask(&[]) };
    let undecided = OpenOptions::default();
    for (query, options, kind, words) in [
        ("", &undecided, ErrorKind::Usage, "takes packets from"),
        ("@1", &receiving(), ErrorKind::Usage, "no RX queue 1"),
        ("", &mask(rx_mask(&[3])), ErrorKind::Usage, "no RX queue 3"),
        ("", &mask(tx), ErrorKind::Usage, "packet:"),
        ("", &mask(other), ErrorKind::Usage, "packet:"),
        ("?sg=off", &receiving(), ErrorKind::Failed, "MTU of 9000"),
        ("?sg=off&mode=generic", &receiving(), ErrorKind::Failed, "sg=on"),
        ("?mode=fast", &receiving(), ErrorKind::Usage, "zerocopy"),
    ] {
        let error = refused(&bench.far, &format!("xdp:{name}{query}"), options);
        assert_eq!(error.kind(), kind, "{query}: {error}");
        assert!(error.to_string().contains(words), "{query}: {error}");
        assert!(bench.far.inside(|| bpf::attached(index).unwrap()).is_none());
    }
    let error = refused(&bench.far, "xdp:wl-none", &receiving());
    assert!(error.to_string().contains("no such interface"), "{error}");
    // The same rules hold for later masks.
    let port = bench.far("", &receiving());
    let control = port.control();
    let other = QueueMask { other: true, ..rx_mask(&[]) };
    assert_eq!(control.set_mask(other).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(control.mask(), QueueMask::ALL);
}

/// A bare name opens `packet:`, also with a filter, and does not mention XDP. `xdp:` does not open.
#[test]
fn privileged_who_only_looks_takes_nothing() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    let name = &bench.pair.b.interface;
    let filter: Filter = "icmp".parse().unwrap();
    let with = |filter: Option<&Filter>| OpenOptions::default().filter(filter.cloned());
    for options in [with(None), with(Some(&filter)), with(Some(&filter)).take(Take::Matching)] {
        let bare: Spec = name.parse().unwrap();
        let port = bench.far.inside(|| port::open(&bare, &options).unwrap());
        let info = port.info();
        assert_eq!(info.backend, Backend::Packet);
        assert_eq!((info.negotiation.len(), info.negotiation[0].way), (1, "packet"));
        assert!(!info.notes.iter().any(|note| note.to_lowercase().contains("xdp")), "{info:?}");
    }
    for options in [with(None), with(Some(&filter)), with(None).take(Take::Matching)] {
        let error = refused(&bench.far, &format!("xdp:{name}"), &options);
        assert!(error.to_string().contains("takes packets from the host"), "{error}");
    }
}
