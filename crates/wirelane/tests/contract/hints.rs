//! Hints of drivers: metadata that drivers report with a packet, and the refusals when they report
//! none.
#![allow(
    clippy::print_stdout,
    reason = "a person who looks at the guest learns what its kernel says"
)]

use std::collections::{HashMap, HashSet};
use std::env;
use std::time::Instant;

use wirelane::Batch;
use wirelane::internal::xdp::XdpPort;
use wirelane::port::{OpenOptions, Port, Readiness, Take};
use wirelane_os::ethtool::Ethtool;
use wirelane_testkit::privileged;

use crate::traffic::Tag;
use crate::{PATIENCE, Wire, wait_for_carriers};

/// Flows, and packets of each.
const FLOWS: u16 = 12;
const PACKETS: u32 = 10;

/// A driver that reports hashes reports one for every packet while they are on. All packets of a
/// flow have the same hash, and each flow has a different one. If a driver reports none, the
/// refusal names it.
///
/// On the guest's virtio_net the hashes are off. When QEMU computes hashes (`hash=on`), a frame for
/// a queue without buffers blocks the frames for the other queues, which then receive nothing. The
/// hashes themselves were right.
#[test]
fn privileged_hints_come_from_the_driver_or_are_refused() {
    if !privileged::require() {
        return;
    }
    let mut wire = Wire::named("WIRELANE_CONTRACT_PAIR");
    let expected = env::var("WIRELANE_CONTRACT_MODE");
    let driver = Ethtool::open(&wire.near).unwrap().driver().unwrap().unwrap().driver;
    for mode in ["zerocopy", "native"] {
        for (option, what) in [("rx_hash", "hashes"), ("rx_timestamps", "times")] {
            let spec = format!("xdp:{}?mode={mode}&{option}=on&ring=512&frames=1024", wire.near);
            let options = OpenOptions::default().take(Take::All);
            let opened = XdpPort::open(&spec.parse().unwrap(), &options);
            let is_told = opened.is_ok();
            match opened {
                Ok(port) if option == "rx_hash" => assert_hashes(&mut wire, port, &spec),
                // Emulated hardware has no clock to compare with.
                Ok(_) => {}
                Err(error) => {
                    let text = error.to_string();
                    println!("{text}");
                    // Before Linux 6.14 no driver of the guest supports zero copy.
                    if text.contains("has no zero copy") && expected.as_deref() != Ok("zerocopy") {
                        continue;
                    }
                    for part in [what, &format!("{option}=on"), &driver, mode] {
                        assert!(text.contains(part), "{part}: {text}");
                    }
                }
            }
            println!(
                "{driver} in {mode}: {option} is {}",
                if is_told { "told" } else { "refused" }
            );
            // The next port needs the same queues, and igb loses its link for a while.
            wait_for_carriers([&wire.near, &wire.far]);
        }
    }
}

/// Sends packets of several flows to the port and checks their hashes.
fn assert_hashes(wire: &mut Wire, mut port: XdpPort, spec: &str) {
    wait_for_carriers([&wire.near, &wire.far]);
    assert_eq!(port.info().notes, [] as [String; 0], "{spec}");
    let features = Ethtool::open(&wire.near).unwrap().features().unwrap().unwrap();
    let is_on = features["rx-hashing"];
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let (deadline, mut batch) = (Instant::now() + PATIENCE, Batch::new(64));
    let mut hashes: HashMap<u8, HashSet<u32>> = HashMap::new();
    let mut came = HashSet::new();
    let far_to_near = [wire.macs[1], wire.macs[0]];
    while came.len() < usize::from(FLOWS) * PACKETS as usize {
        assert!(Instant::now() < deadline, "{spec}: only {} packets came", came.len());
        // Send again as long as some are missing: emulated cards drop packets that find no
        // descriptor.
        for number in 0..PACKETS {
            for flow in 0..FLOWS {
                let tag = Tag { run: 254, queue: flow as u8, length: 60 + flow, number };
                wire.sender.send_frame(&tag.frame(flow, far_to_near)).unwrap();
            }
        }
        let quiet = Instant::now() + std::time::Duration::from_millis(100);
        while Instant::now() < quiet {
            for rx in &mut ends {
                rx.receive(&mut batch);
                for frame in batch.iter() {
                    let Some(tag) = Tag::of(frame.data()).filter(|tag| tag.run == 254) else {
                        continue;
                    };
                    let hash = frame.rx_hash();
                    assert_eq!(hash.is_some(), is_on, "{spec}: {tag:?} has {hash:?}");
                    hashes.entry(tag.queue).or_default().extend(hash.map(|hash| hash.value));
                    came.insert((tag.queue, tag.number));
                }
                batch.clear();
            }
        }
    }
    let each = usize::from(is_on);
    assert!(hashes.values().all(|of_flow| of_flow.len() == each), "{spec}: {hashes:?}");
    let all: HashSet<u32> = hashes.values().flatten().copied().collect();
    assert_eq!(all.len(), each * usize::from(FLOWS), "{spec}: {hashes:?}");
    port.control().stop();
    for rx in &mut ends {
        while !matches!(rx.readiness().unwrap(), Readiness::End) {
            rx.receive(&mut batch);
            batch.clear();
        }
    }
}
