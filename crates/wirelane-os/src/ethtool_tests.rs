//! Answers recorded from drivers, and the same requests to virtual devices.

use super::answers::*;
use super::uapi::*;
use super::*;
use crate::testing::in_new_namespace;

/// An answer in the kernel's layout: words, then bytes.
fn answer(words: &[u32], tail: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.extend_from_slice(tail);
    bytes
}

#[test]
fn driver_of_virtio() {
    let mut bytes = vec![0_u8; size_of::<UapiDrvinfo>()];
    bytes[4..14].copy_from_slice(b"virtio_net");
    bytes[36..41].copy_from_slice(b"1.0.0");
    bytes[100..112].copy_from_slice(b"0000:00:03.0");
    let info = parse_driver(&bytes).unwrap();
    assert_eq!(info.driver, "virtio_net");
    assert_eq!(info.version, "1.0.0");
    assert_eq!(info.firmware, "");
    assert_eq!(info.bus, "0000:00:03.0");
}

#[test]
fn driver_name_without_terminator() {
    let bytes = vec![b'x'; size_of::<UapiDrvinfo>()];
    assert_eq!(parse_driver(&bytes).unwrap().driver, "x".repeat(32));
}

#[test]
fn channels_of_veth() {
    let bytes = answer(&[0x3c, 4, 4, 0, 0, 3, 2, 0, 0], &[]);
    let channels = parse_channels(&bytes).unwrap();
    assert_eq!(channels, Channels { max_rx: 4, max_tx: 4, rx: 3, tx: 2, ..Channels::default() });
}

#[test]
fn rings_of_virtio() {
    let bytes = answer(&[0x10, 256, 0, 0, 256, 128, 0, 0, 64], &[]);
    assert_eq!(parse_rings(&bytes), Some(Rings { max_rx: 256, max_tx: 256, rx: 128, tx: 64 }));
}

#[test]
fn rss_with_table_and_key() {
    let options = u32::from_ne_bytes([RssConfig::TOEPLITZ, RssConfig::SYMMETRIC_XOR, 0, 0]);
    let key: Vec<u8> = (0..40).collect();
    let bytes = answer(&[0x46, 0, 4, 40, options, 0, 0, 1, 2, 3], &key);
    let rss = parse_rss(&bytes).unwrap();
    assert_eq!(rss.functions, RssConfig::TOEPLITZ);
    assert_eq!(rss.input_transform, RssConfig::SYMMETRIC_XOR);
    assert_eq!(rss.indirection, [0, 1, 2, 3]);
    assert_eq!(rss.key, key);
}

#[test]
fn rss_without_table_and_key() {
    // virtio_net with one queue: only a hash function.
    let bytes = answer(&[0x46, 0, 0, 0, u32::from_ne_bytes([1, 0xff, 0, 0]), 0], &[]);
    let rss = parse_rss(&bytes).unwrap();
    assert_eq!(rss, RssConfig { functions: RssConfig::TOEPLITZ, ..RssConfig::default() });
}

#[test]
fn indirection_of_an_old_driver() {
    let rss = parse_indirection(&answer(&[0x38, 3, 0, 1, 0], &[])).unwrap();
    assert_eq!(rss.indirection, [0, 1, 0]);
    assert!(rss.key.is_empty());
}

#[test]
fn offloads_on_off_and_unknown() {
    let on = answer(&[0x2b, 1], &[]);
    let flags = answer(&[0x25, ETH_FLAG_LRO | ETH_FLAG_TXVLAN], &[]);
    let offloads = parse_offloads(Some(&on), Some(&flags));
    assert_eq!(offloads.gro, Some(true));
    assert_eq!(offloads.lro, Some(true));
    assert_eq!(offloads.rx_vlan, Some(false));
    assert_eq!(offloads.tx_vlan, Some(true));
    assert_eq!(parse_offloads(None, None), Offloads::default());
}

#[test]
fn speed_known_and_unknown() {
    let mut bytes = vec![0; size_of::<UapiLinkSettings>()];
    for (speed, expected) in [(10_000, Some(10_000)), (0, None), (u32::MAX, None)] {
        bytes[4..8].copy_from_slice(&speed.to_ne_bytes());
        assert_eq!(parse_speed(&bytes), expected);
    }
    bytes[15] = (-4_i8).cast_unsigned();
    assert_eq!(link_mode_words(&bytes), Some(4));
    for answered in [0_i8, 4, i8::MIN] {
        bytes[15] = answered.cast_unsigned();
        assert_eq!(link_mode_words(&bytes), None);
    }
}

#[test]
fn a_short_or_lying_answer_is_none() {
    let whole = answer(&[0x46, 0, 4, 40, 0, 0, 0, 1, 2, 3], &[0; 40]);
    for length in 0..whole.len() {
        let sizes_only = length == size_of::<UapiRxfh>();
        assert_eq!(parse_rss(&whole[..length]).is_some(), sizes_only, "{length}");
    }
    assert_eq!(parse_rss(&answer(&[0x46, 0, u32::MAX, u32::MAX, 0, 0, 0], &[])), None);
    assert_eq!(parse_indirection(&answer(&[0x38, u32::MAX, 0], &[])), None);
    assert_eq!(parse_channels(&[0; 35]), None);
    assert_eq!(parse_rings(&[0; 35]), None);
    assert_eq!(parse_driver(&[0; 100]), None);
    assert_eq!(parse_speed(&[0; 7]), None);
    assert_eq!(link_mode_words(&[0; 15]), None);
}

#[test]
fn impossible_names_do_not_exist() {
    for name in ["", "a-name-of-16-byt", "nul\0"] {
        assert_eq!(Ethtool::open(name).unwrap_err().errno(), Some(libc::ENODEV), "{name:?}");
    }
    let unknown = Ethtool::open("no-such-if").unwrap();
    assert_eq!(unknown.channels().unwrap_err().errno(), Some(libc::ENODEV));
}

#[test]
fn privileged_virtual_devices_answer() {
    in_new_namespace(|| {
        command("ip", "link add va numrxqueues 4 numtxqueues 3 type veth peer name vb");
        let veth = Ethtool::open("va").unwrap();
        assert_eq!(veth.driver().unwrap().unwrap().driver, "veth");
        let channels = veth.channels().unwrap().unwrap();
        assert_eq!((channels.max_rx, channels.max_tx, channels.max_combined), (4, 3, 0));
        assert_eq!(veth.rings().unwrap(), None);
        assert_eq!(veth.rss().unwrap(), None);
        assert_eq!(veth.speed().unwrap(), Some(10_000));
        let offloads = veth.offloads().unwrap();
        assert_eq!(offloads.gro, Some(false));
        assert_eq!(offloads.rx_vlan, Some(true));
        command("ethtool", "-K va gro on rxvlan off");
        let offloads = veth.offloads().unwrap();
        assert_eq!(offloads.gro, Some(true));
        assert_eq!(offloads.rx_vlan, Some(false));

        let loopback = Ethtool::open("lo").unwrap();
        assert_eq!(loopback.driver().unwrap(), None);
        assert_eq!(loopback.channels().unwrap(), None);
    });
}

fn command(program: &str, arguments: &str) {
    let status = std::process::Command::new(program).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {arguments}");
}
