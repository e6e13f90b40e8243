//! Interfaces of every MTU.

use wirelane::internal::port::ProgramOptions;
use wirelane::port;
use wirelane::session::forward::{Forward, ForwardConfig};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

/// As [`QUICK`], with blocks large enough for the longest frames.
const LONG: &str = "?ring=4Mi&block=16Ki&retire=2ms";

/// Frames sent through a port pass a forwarder between two `packet:` ports and arrive intact.
#[test]
fn privileged_every_frame_passes_at_every_mtu() {
    if !privileged::require() {
        return;
    }
    stay();
    let [near, middle, far] = [Namespace::new(), Namespace::new(), Namespace::new()];
    for mtu in [68, 576, 882, 883, 1500, 9000] {
        let (first, second) =
            (VethPair::new(&near, &middle, 1, mtu), VethPair::new(&middle, &far, 1, mtu));
        let spec = format!("packet:{}{LONG}", second.b.interface);
        let mut receiver = open(&far, &spec, &masked(mask(&[0], &[], false))).unwrap();
        let mut ends = receiver.rx().unwrap();
        receiver.start().unwrap();
        let open_in_the_middle = |name: &str, options: OpenOptions| {
            let spec = format!("packet:{name}{LONG}").parse().unwrap();
            middle.inside(|| port::open(&spec, &options)).unwrap()
        };
        let source = OpenOptions::default().internal(ProgramOptions::default().outgoing(false));
        let ports = vec![
            open_in_the_middle(&first.b.interface, source),
            open_in_the_middle(&second.a.interface, transmitting()),
        ];
        let config = ForwardConfig::default().one_way(true);
        let forward = Forward::start(ports, &config).unwrap();

        let mut sender =
            open(&near, &format!("packet:{}", first.a.interface), &transmitting()).unwrap();
        let mut tx = sender.tx().unwrap().remove(0);
        let longest = mtu as usize + 14;
        let frame = |n: u64| packets::udp4(n).length(longest - n as usize % 20).build();
        let mut batch = Batch::new(100);
        assert_eq!(tx.allocate(&mut batch, 100), 100, "MTU {mtu}");
        for (number, own) in (0..).zip(batch.iter_mut()) {
            assert!(own.fill(&frame(number)), "MTU {mtu}");
        }
        assert_eq!(tx.transmit(&mut batch), 100, "MTU {mtu}");
        assert_eq!(tx.drain(PATIENCE).unwrap(), 0, "MTU {mtu}");
        let got = finish_after(&*receiver.control(), &mut ends, 100);
        let outcome = forward.join();
        assert!(outcome.errors.is_empty(), "MTU {mtu}: {:?}", outcome.errors);
        assert_eq!(outcome.tx.iter().map(|tx| tx.errors).sum::<u64>(), 0, "MTU {mtu}");
        let expected: Vec<_> = (0..100).map(frame).collect();
        let got: Vec<_> = got.into_iter().map(|got| got.bytes).collect();
        assert!(got == expected, "MTU {mtu}: {} of 100 frames", got.len());
    }
}
