//! Receive-side scaling: the meaning of the driver's numbers, and the symmetry of hash keys.

use wirelane_os::ethtool::RssConfig;

use super::interface::Rss;

/// The driver's answer in words; `None` if it is empty.
pub(super) fn describe(config: &RssConfig) -> Option<Rss> {
    if *config == RssConfig::default() {
        return None;
    }
    let function = match config.functions {
        RssConfig::TOEPLITZ => Some("toeplitz"),
        RssConfig::XOR => Some("xor"),
        RssConfig::CRC32 => Some("crc32"),
        _ => None,
    };
    let input_transform = match config.input_transform {
        0 => Some("none"),
        RssConfig::SYMMETRIC_XOR => Some("symmetric-xor"),
        RssConfig::SYMMETRIC_OR_XOR => Some("symmetric-or-xor"),
        _ => None,
    };
    let symmetric_input = RssConfig::SYMMETRIC_XOR | RssConfig::SYMMETRIC_OR_XOR;
    let key_symmetric = match config.functions {
        _ if config.input_transform & symmetric_input != 0 => Some(true),
        RssConfig::TOEPLITZ => toeplitz_symmetric(&config.key),
        // The other functions are not specified well enough, and their drivers ignore the key.
        _ => None,
    };
    Some(Rss {
        function: function.map(str::to_owned),
        // Without a hash function, its input is unknown, too.
        input_transform: function.and(input_transform).map(str::to_owned),
        key: (!config.key.is_empty()).then(|| hexadecimal(&config.key)),
        key_symmetric,
        indirection: (!config.indirection.is_empty()).then(|| config.indirection.clone()),
    })
}

/// Whether the Toeplitz hash with this key is the same for both directions of every TCP and UDP
/// flow; `None` if the key is too short for the fields.
///
/// The hash is the exclusive or, over the bits i that are set in the input, of the 32 key bits from
/// i on. It is symmetric exactly if the windows at i and at i + d are equal for every source bit i
/// with its destination bit i + d. The input is source address, destination address, source port,
/// destination port.
fn toeplitz_symmetric(key: &[u8]) -> Option<bool> {
    let ipv4 = symmetric_for(key, 32)?;
    // A key of less than 40 bytes cannot hash IPv6, so only IPv4 matters.
    Some(ipv4 && symmetric_for(key, 128).unwrap_or(true))
}

/// The same for addresses of `address` bits.
fn symmetric_for(key: &[u8], address: usize) -> Option<bool> {
    const PORT: usize = 16;
    const WINDOW: usize = 32;
    let ports = 2 * address;
    if key.len() * 8 < ports + 2 * PORT + WINDOW {
        return None;
    }
    let bit = |index: usize| key.get(index / 8).map(|byte| byte >> (7 - index % 8) & 1);
    // All windows that start in the field are equal to the windows `distance` bits later.
    let exchangeable = |start: usize, distance: usize| {
        (start..start + distance + WINDOW - 1).all(|index| bit(index) == bit(index + distance))
    };
    Some(exchangeable(0, address) && exchangeable(ports, PORT))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The key of Microsoft's verification suite, the default of many drivers.
    const MICROSOFT: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn repeated(word: [u8; 2], length: usize) -> Vec<u8> {
        word.into_iter().cycle().take(length).collect()
    }

    /// The definition of the hash, bit by bit.
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], index: usize| u32::from(bytes[index / 8] >> (7 - index % 8) & 1);
        let mut hash = 0;
        for i in (0..input.len() * 8).filter(|i| bit(input, *i) == 1) {
            hash ^= (0..32).fold(0, |window, j| window << 1 | bit(key, i + j));
        }
        hash
    }

    fn input(source: &[u8], destination: &[u8], ports: (u16, u16)) -> Vec<u8> {
        [source, destination, &ports.0.to_be_bytes(), &ports.1.to_be_bytes()].concat()
    }

    #[test]
    fn the_hash_of_these_tests_is_microsofts() {
        let input = input(&[66, 9, 149, 187], &[161, 142, 100, 80], (2794, 1766));
        assert_eq!(toeplitz(&MICROSOFT, &input), 0x51cc_c178);
    }

    #[test]
    fn known_keys() {
        assert_eq!(toeplitz_symmetric(&MICROSOFT), Some(false));
        assert_eq!(toeplitz_symmetric(&repeated([0x6d, 0x5a], 40)), Some(true));
        assert_eq!(toeplitz_symmetric(&repeated([0x6d, 0x5a], 52)), Some(true));
        assert_eq!(toeplitz_symmetric(&repeated([0x6d, 0x5a], 16)), Some(true));
        assert_eq!(toeplitz_symmetric(&[0; 40]), Some(true));
        for length in 0..16 {
            assert_eq!(toeplitz_symmetric(&repeated([0x6d, 0x5a], length)), None);
        }
    }

    #[test]
    fn a_key_that_repeats_only_after_32_bits_is_not_symmetric() {
        let key: Vec<u8> = [0x6d, 0x5a, 0x56, 0xda].into_iter().cycle().take(40).collect();
        assert_eq!(toeplitz_symmetric(&key), Some(false));
    }

    #[test]
    fn symmetric_for_ipv4_alone_is_not_enough() {
        let mut key = repeated([0x6d, 0x5a], 40);
        key[20] ^= 1;
        assert_eq!(symmetric_for(&key, 32), Some(true));
        assert_eq!(toeplitz_symmetric(&key), Some(false));
    }

    #[test]
    fn what_the_driver_does_not_say_is_none() {
        assert_eq!(describe(&RssConfig::default()), None);
        // virtio_net with one queue names the function and has neither table nor key.
        let rss = describe(&RssConfig { functions: RssConfig::TOEPLITZ, ..RssConfig::default() })
            .unwrap();
        assert_eq!(rss.function.as_deref(), Some("toeplitz"));
        assert_eq!((rss.key, rss.key_symmetric, rss.indirection), (None, None, None));
        let table = RssConfig { indirection: vec![0, 1], ..RssConfig::default() };
        let rss = describe(&table).unwrap();
        assert_eq!((rss.function, rss.input_transform), (None, None));
        assert_eq!(rss.indirection, Some(vec![0, 1]));
    }

    #[test]
    fn a_symmetric_input_needs_no_symmetric_key() {
        let config = RssConfig {
            functions: RssConfig::TOEPLITZ,
            input_transform: RssConfig::SYMMETRIC_OR_XOR,
            key: MICROSOFT.to_vec(),
            indirection: vec![0, 1],
        };
        let rss = describe(&config).unwrap();
        assert_eq!(rss.key_symmetric, Some(true));
        assert_eq!(rss.input_transform.as_deref(), Some("symmetric-or-xor"));
        assert!(rss.key.unwrap().starts_with("6d:5a:56:da:"));
    }

    proptest! {
        #[test]
        fn symmetric_keys_hash_both_directions_alike(
            word: [u8; 2],
            a: [u8; 16],
            b: [u8; 16],
            ports: (u16, u16),
        ) {
            let key = repeated(word, 40);
            prop_assert_eq!(toeplitz_symmetric(&key), Some(true));
            let swapped = (ports.1, ports.0);
            prop_assert_eq!(toeplitz(&key, &input(&a, &b, ports)), toeplitz(&key, &input(&b, &a, swapped)));
            let (a, b) = (&a[..4], &b[..4]);
            prop_assert_eq!(toeplitz(&key, &input(a, b, ports)), toeplitz(&key, &input(b, a, swapped)));
        }

        /// Flip one bit of a symmetric key: the verdict must agree with trying every single-bit
        /// flow.
        #[test]
        fn the_verdict_is_exact(word: [u8; 2], flip in 0_usize..320) {
            let mut key = repeated(word, 40);
            key[flip / 8] ^= 0x80 >> (flip % 8);
            for (address, verdict) in [(4, symmetric_for(&key, 32)), (16, symmetric_for(&key, 128))] {
                let length = 2 * address + 4;
                let symmetric = (0..length * 8).all(|i| {
                    let mut flow = vec![0_u8; length];
                    flow[i / 8] = 0x80 >> (i % 8);
                    let (a, rest) = flow.split_at(address);
                    let (b, ports) = rest.split_at(address);
                    let back = [b, a, &ports[2..], &ports[..2]].concat();
                    toeplitz(&key, &flow) == toeplitz(&key, &back)
                });
                prop_assert_eq!(verdict, Some(symmetric));
            }
        }
    }
}
