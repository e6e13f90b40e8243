//! Messages built by hand, and lists of interfaces that a test made.

use std::process::Command;

use super::family::*;
use super::links::*;
use crate::netlink::push_attribute;
use crate::testing::in_new_namespace;

fn generic(attributes: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = generic_header(0, 1);
    for (kind, value) in attributes {
        push_attribute(&mut payload, *kind, &value.to_ne_bytes()).unwrap();
    }
    payload
}

#[test]
fn queue_with_and_without_napi() {
    let payload = generic(&[
        (NETDEV_A_QUEUE_ID, 3),
        (NETDEV_A_QUEUE_TYPE, NETDEV_QUEUE_TYPE_TX),
        (NETDEV_A_QUEUE_IFINDEX, 2),
        (NETDEV_A_QUEUE_NAPI_ID, 8193),
    ]);
    let queue = NetdevQueue { direction: QueueDirection::Tx, index: 3, napi: Some(8193) };
    assert_eq!(parse_queue(&payload), Some(queue));
    let payload = generic(&[(NETDEV_A_QUEUE_TYPE, NETDEV_QUEUE_TYPE_RX), (NETDEV_A_QUEUE_ID, 0)]);
    let queue = NetdevQueue { direction: QueueDirection::Rx, index: 0, napi: None };
    assert_eq!(parse_queue(&payload), Some(queue));
}

#[test]
fn queue_of_an_unknown_type_is_skipped() {
    let payload = generic(&[(NETDEV_A_QUEUE_ID, 3), (NETDEV_A_QUEUE_TYPE, 7)]);
    assert_eq!(parse_queue(&payload), None);
    assert_eq!(parse_queue(&[0; 3]), None);
}

#[test]
fn napi_with_interrupt_and_thread() {
    let payload =
        generic(&[(NETDEV_A_NAPI_ID, 8193), (NETDEV_A_NAPI_IRQ, 51), (NETDEV_A_NAPI_PID, 700)]);
    let napi = Napi { id: 8193, irq: Some(51), thread: Some(700) };
    assert_eq!(parse_napi(&payload), Some(napi));
    assert_eq!(parse_napi(&generic(&[(NETDEV_A_NAPI_IRQ, 51)])), None);
}

#[test]
fn link_with_a_short_attribute() {
    let mut payload = vec![0; IFINFOMSG];
    payload[4..8].copy_from_slice(&9_u32.to_ne_bytes());
    payload[8..12].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    push_attribute(&mut payload, libc::IFLA_IFNAME, b"va\0").unwrap();
    push_attribute(&mut payload, libc::IFLA_MTU, &[0xdc]).unwrap();
    push_attribute(&mut payload, libc::IFLA_NUM_RX_QUEUES, &4_u32.to_ne_bytes()).unwrap();
    let counters: Vec<u8> = (100..124_u64).flat_map(u64::to_ne_bytes).collect();
    push_attribute(&mut payload, libc::IFLA_STATS64, &counters).unwrap();
    push_attribute(&mut payload, libc::IFLA_TXQLEN, &500_u32.to_ne_bytes()).unwrap();
    let link = parse_link(&payload).unwrap();
    assert_eq!((link.tx_dropped, link.tx_queue_len), (Some(107), Some(500)));
    assert_eq!((link.index, link.name.as_str(), link.mtu), (9, "va", None));
    assert_eq!((link.rx_queues, link.tx_queues), (Some(4), None));
    assert!(link.is_up() && !link.is_loopback());
    for length in 0..IFINFOMSG + 4 {
        assert_eq!(parse_link(&payload[..length]), None, "{length}");
    }
}

#[test]
fn loopback_is_found_without_privileges() {
    let loopback = link("lo").unwrap();
    assert_eq!(loopback.index, 1);
    assert!(loopback.is_loopback());
    assert!(links().unwrap().iter().any(|link| link.name == "lo"));
}

#[test]
fn unknown_names_are_no_device() {
    for name in ["", "no-such-if", "a-name-of-16-byt", "nul\0"] {
        assert_eq!(link(name).unwrap_err().errno(), Some(libc::ENODEV), "{name:?}");
    }
}

#[test]
fn privileged_queues_in_use_are_listed() {
    in_new_namespace(|| {
        ip("link add va up numrxqueues 4 numtxqueues 4 type veth peer name vb");
        ip("link set vb up");
        let names: Vec<_> = links().unwrap().into_iter().map(|link| link.name).collect();
        assert_eq!(names, ["lo", "vb", "va"]);
        let va = link("va").unwrap();
        assert_eq!((va.rx_queues, va.tx_queues), (Some(4), Some(4)));
        assert_eq!(va.kind.as_deref(), Some("veth"));
        assert_eq!(va.mtu, Some(1500));
        assert_eq!(va.address.len(), 6);
        assert!(va.is_up());

        let status = Command::new("ethtool").args(["-L", "va", "rx", "3", "tx", "2"]).status();
        assert!(status.unwrap().success());
        let Some(queues) = queues(va.index).unwrap() else {
            eprintln!("SKIPPED: this kernel has no netdev family");
            return;
        };
        let count = |direction| {
            let mut indices: Vec<_> =
                queues.iter().filter(|q| q.direction == direction).map(|q| q.index).collect();
            indices.sort_unstable();
            indices
        };
        assert_eq!(count(QueueDirection::Rx), [0, 1, 2]);
        assert_eq!(count(QueueDirection::Tx), [0, 1]);
        assert!(napis(va.index).unwrap().is_some());
        // An interface that is down has no queues in use.
        ip("link set va down");
        assert_eq!(super::queues(va.index).unwrap(), Some(Vec::new()));
    });
}

#[test]
fn privileged_napi_contexts_are_listed() {
    in_new_namespace(|| {
        ip("link add va up numrxqueues 2 numtxqueues 2 type veth peer name vb");
        ip("link set vb up");
        // veth polls with NAPI only when GRO is on or an XDP program is attached.
        let status = Command::new("ethtool").args(["-K", "va", "gro", "on"]).status();
        assert!(status.unwrap().success());
        let va = link("va").unwrap();
        let (Some(queues), Some(napis)) = (queues(va.index).unwrap(), napis(va.index).unwrap())
        else {
            eprintln!("SKIPPED: this kernel has no netdev family");
            return;
        };
        assert_eq!(napis.len(), 2, "{napis:?}");
        for napi in &napis {
            // A virtual device has no interrupt.
            assert_eq!(napi.irq, None);
        }
        for queue in queues.iter().filter(|q| q.direction == QueueDirection::Rx) {
            assert!(queue.napi.is_none_or(|id| napis.iter().any(|napi| napi.id == id)));
        }
        eprintln!("{queues:?}\n{napis:?}");
        match set_napi_threaded(napis[0].id) {
            Ok(()) => {
                let threads = super::napis(va.index).unwrap().unwrap();
                assert!(threads.iter().any(|napi| napi.thread.is_some()), "{threads:?}");
            }
            Err(error) => {
                let old = [Some(libc::EOPNOTSUPP), Some(libc::EINVAL)];
                assert!(old.contains(&error.errno()), "{error}");
            }
        }
    });
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}
