//! Builds the text of a line.
//!
//! A line takes less than a microsecond. `std::fmt` would take longer for the numbers than
//! everything else together, so it is not used.

use wirelane_wire::MacAddr;
use wirelane_wire::text::is_hostile;

/// Two digits for each byte.
const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f\
303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f\
606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f\
909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf\
c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeef\
f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

/// The text to append to.
pub(crate) struct TextLine<'t> {
    text: &'t mut String,
}

impl<'t> TextLine<'t> {
    pub(crate) fn new(text: &'t mut String) -> Self {
        Self { text }
    }

    #[inline]
    pub(crate) fn put(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds a number in decimal.
    #[inline]
    pub(crate) fn number(&mut self, number: impl Into<u64>) -> &mut Self {
        self.put(itoa::Buffer::new().format(number.into()))
    }

    /// Adds a number in decimal.
    #[inline]
    pub(crate) fn count(&mut self, number: usize) -> &mut Self {
        self.put(itoa::Buffer::new().format(number))
    }

    /// Adds a number with `digits` digits, padded with zeroes.
    #[inline]
    pub(crate) fn padded(&mut self, number: u32, digits: usize) -> &mut Self {
        let mut buffer = itoa::Buffer::new();
        let number = buffer.format(number);
        self.put("000000000".get(number.len()..digits).unwrap_or_default()).put(number)
    }

    /// Adds a number in decimal, padded with spaces to `width` characters.
    pub(crate) fn spaced(&mut self, number: u64, width: usize) -> &mut Self {
        let mut buffer = itoa::Buffer::new();
        let number = buffer.format(number);
        self.put("        ".get(number.len()..width).unwrap_or_default()).put(number)
    }

    /// Adds a number in hexadecimal, without leading zeroes.
    pub(crate) fn hex(&mut self, number: u32) -> &mut Self {
        let bytes = number.to_be_bytes();
        let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(3);
        for (at, &byte) in bytes.iter().enumerate().skip(first) {
            let digits = digits(byte);
            let one = at == first && byte < 16;
            self.put(if one { digits.get(1..).unwrap_or_default() } else { digits });
        }
        self
    }

    /// Adds a number in hexadecimal, four digits.
    pub(crate) fn hex4(&mut self, number: u16) -> &mut Self {
        self.hex_bytes(&number.to_be_bytes())
    }

    /// Adds bytes, two digits each.
    #[inline]
    pub(crate) fn hex_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes {
            self.put(digits(byte));
        }
        self
    }

    /// Adds a link-layer address.
    pub(crate) fn mac(&mut self, address: MacAddr) -> &mut Self {
        self.link_address(&address.0)
    }

    /// Adds a link-layer address of any length.
    pub(crate) fn link_address(&mut self, bytes: &[u8]) -> &mut Self {
        for (at, &byte) in bytes.iter().enumerate() {
            if at > 0 {
                self.put(":");
            }
            self.put(digits(byte));
        }
        self
    }

    #[inline]
    pub(crate) fn ipv4(&mut self, address: [u8; 4]) -> &mut Self {
        let [a, b, c, d] = address;
        self.number(a).put(".").number(b).put(".").number(c).put(".").number(d)
    }

    /// Adds an address in the form of RFC 5952.
    pub(crate) fn ipv6(&mut self, address: [u8; 16]) -> &mut Self {
        let [.., a, b, c, d] = address;
        if address.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) {
            return self.put("::ffff:").ipv4([a, b, c, d]);
        }
        let groups = segments(address);
        let (from, to) = longest_zeroes(&groups);
        for (at, &group) in groups.iter().enumerate() {
            if at >= from && at < to {
                if at == from {
                    self.put("::");
                }
                continue;
            }
            if at > 0 && at != to {
                self.put(":");
            }
            self.hex(group.into());
        }
        self
    }

    /// Adds text from a packet or a file. Escapes unprintable characters, so that they cannot reach
    /// a terminal.
    pub(crate) fn foreign(&mut self, bytes: &[u8]) -> &mut Self {
        for chunk in bytes.utf8_chunks() {
            for letter in chunk.valid().chars() {
                if is_hostile(letter) {
                    let mut bytes = [0; 4];
                    self.escaped(letter.encode_utf8(&mut bytes).as_bytes());
                } else {
                    self.text.push(letter);
                }
            }
            self.escaped(chunk.invalid());
        }
        self
    }

    fn escaped(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.put("\\x").put(digits(byte));
        }
    }

    /// Adds the names of the set bits, or `none`.
    pub(crate) fn bits(&mut self, bits: u32, names: &[(u32, &str)], between: &str) -> &mut Self {
        let mut any = false;
        for (bit, name) in names {
            if bits & bit != 0 {
                if any {
                    self.put(between);
                }
                self.put(name);
                any = true;
            }
        }
        if any { self } else { self.put("none") }
    }
}

#[inline]
fn digits(byte: u8) -> &'static str {
    let at = usize::from(byte) * 2;
    DIGITS.get(at..at + 2).unwrap_or_default()
}

fn segments(address: [u8; 16]) -> [u16; 8] {
    std::net::Ipv6Addr::from(address).segments()
}

/// The first of the longest sequences of two or more zeroes; an empty one past the end if there is
/// none.
fn longest_zeroes(groups: &[u16; 8]) -> (usize, usize) {
    let mut best = (9, 9);
    let mut from = 0;
    for (at, &group) in groups.iter().enumerate() {
        if group != 0 {
            from = at + 1;
        } else if at + 1 - from > (best.1 - best.0).max(1) {
            best = (from, at + 1);
        }
    }
    best
}

/// The text that `add` writes to a line.
#[cfg(test)]
pub(crate) fn text(add: impl FnOnce(&mut TextLine<'_>)) -> String {
    let mut text = String::new();
    add(&mut TextLine::new(&mut text));
    text
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_have_their_digits() {
        for number in [0, 1, 15, 16, 255, 256, 0xabcde, 0x0100_0000, u32::MAX] {
            assert_eq!(text(|line| _ = line.hex(number)), format!("{number:x}"));
            assert_eq!(text(|line| _ = line.padded(number, 6)), format!("{number:06}"));
        }
    }

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(
            text(|line| _ = line.foreign(b"a\x1b[2J\xff\xc3\xa9\n")),
            "a\\x1b[2J\\xff\u{e9}\\x0a"
        );
    }

    proptest! {
        #[test]
        fn addresses_are_those_of_the_standard(groups in prop::array::uniform8(prop_oneof![Just(0u16), any::<u16>()])) {
            let address = Ipv6Addr::from(groups);
            prop_assert_eq!(text(|line| _ = line.ipv6(address.octets())), address.to_string());
        }
    }
}
