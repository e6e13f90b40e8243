//! The one-line notation of packets: `vlan id=100 ipv4 dst=10.0.0.0/24 udp dst=53 payload
//! text=hello`.
//!
//! A word is a protocol; `field=value` sets a field of the preceding protocol. Spaces separate
//! words. No character of the notation is special in a shell. `docs/send.md` is the reference.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::notation;
use crate::protocol::{Notation, ProtocolField};
use crate::recipe::{Layer, Recipe, Setting, Value};

impl FromStr for Recipe {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut layers: Vec<Layer> = Vec::new();
        for word in words(text)? {
            let Some((name, value)) = word.split_once('=') else {
                layers.push(Layer::named(word)?);
                continue;
            };
            let position = layers.len();
            let Some(layer) = layers.last_mut() else {
                return Err(Error::new(format!(
                    "'{word}' sets a field, but of which protocol? write for example 'udp {word}'"
                )));
            };
            set(layer, position, name, value)
                .map_err(|error| Error::new(format!("layer {position}: {error}")))?;
        }
        if layers.is_empty() {
            return Err(Error::new("a packet has at least one layer, for example 'udp'"));
        }
        Ok(Self { layers })
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, layer) in self.layers.iter().enumerate() {
            if position > 0 {
                f.write_str(" ")?;
            }
            f.write_str(layer.protocol.name)?;
            for Setting { field, value } in &layer.settings {
                write!(f, " {}=", field.name)?;
                match value {
                    Value::Auto => f.write_str("auto")?,
                    Value::Numbers(values) => {
                        f.write_str(&notation::print(field, values, seed(position + 1, field)))?;
                    }
                    Value::Bytes(bytes) if matches!(field.kind, Notation::Text) => quote(bytes, f)?,
                    Value::Bytes(bytes) => {
                        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sets one field of the layer at this position.
fn set(layer: &mut Layer, position: usize, name: &str, value: &str) -> Result<()> {
    let protocol = layer.protocol;
    let wrong = |what: String| Error::new(format!("{protocol} {name}: {what}"));
    let Some(field) = protocol.field(name) else {
        // This call returns the error for an unknown field.
        return layer.set_auto(name).map(drop);
    };
    match field.kind {
        _ if value == "auto" && !matches!(field.kind, Notation::Text) => layer.set_auto(name),
        Notation::Text => layer.set_bytes(name, unquote(value).map_err(wrong)?),
        Notation::Hex => {
            let bytes = hexadecimal(value).ok_or_else(|| {
                wrong(format!("'{value}' is no even number of hexadecimal digits"))
            })?;
            layer.set_bytes(name, bytes)
        }
        _ => {
            let values = notation::parse(field, value, seed(position, field)).map_err(wrong)?;
            layer.set(name, values)
        }
    }
    .map(drop)
}

/// The default seed of random values, different for each field.
fn seed(position: usize, field: &ProtocolField) -> u64 {
    // FNV-1a suffices, as the generator of the values mixes the seed.
    let name = field.name.bytes().map(u64::from);
    name.chain([position as u64])
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3))
}

/// Splits a text into words. Quoted text may contain spaces.
fn words(text: &str) -> Result<Vec<&str>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = word_end(rest)
            .ok_or_else(|| Error::new(format!("a quote in '{rest}' is not closed")))?;
        let (word, more) = rest.split_at(end);
        words.push(word);
        rest = more.trim_start();
    }
    Ok(words)
}

/// The end of the first word; `None` if a quote is not closed.
fn word_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some('"') if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c.is_whitespace() => return Some(at),
            None if before == '=' && (c == '"' || c == '\'') => quote = Some(c),
            None => {}
        }
        before = c;
    }
    quote.is_none().then_some(text.len())
}

/// Decodes plain text, text in single quotes, or text in double quotes with escapes.
fn unquote(text: &str) -> Result<Vec<u8>, String> {
    let within = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    if let Some(text) = within('\'') {
        return Ok(text.as_bytes().to_vec());
    }
    if !text.starts_with('"') {
        return Ok(text.as_bytes().to_vec());
    }
    let wrong =
        || format!("{text} is not well quoted; the escapes are \\\" \\\\ \\n \\r \\t \\xNN");
    let mut rest = within('"').ok_or_else(wrong)?;
    let mut bytes = Vec::new();
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let mut characters = escape.chars();
        let byte = match characters.next().ok_or_else(wrong)? {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            c @ ('"' | '\\') => c as u8,
            'x' => {
                let digits = escape.get(1..3).ok_or_else(wrong)?;
                characters.nth(1);
                *hexadecimal(digits)
                    .and_then(|bytes| bytes.first().copied())
                    .as_ref()
                    .ok_or_else(wrong)?
            }
            _ => return Err(wrong()),
        };
        bytes.push(byte);
        rest = characters.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn quote(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    let bare = !bytes.is_empty() && bytes.iter().all(plain);
    let quote = if bare { "" } else { "\"" };
    f.write_str(quote)?;
    for byte in bytes {
        match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(*byte))?,
            b' '..=b'~' => write!(f, "{}", char::from(*byte))?,
            _ => write!(f, "\\x{byte:02x}")?,
        }
    }
    f.write_str(quote)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[a, b]| Some((digit(*a)? << 4 | digit(*b)?) as u8)).collect();
    bytes.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Recipe>().unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_place_and_what_is_known() {
        assert_eq!(
            error("ipv4 tll=3"),
            "layer 1: ipv4 has no field 'tll'; it has version, ihl, dscp, ecn, length, id, \
             reserved, df, mf, offset, ttl, protocol, checksum, src, dst, options"
        );
        assert!(error("ipv4 upd").starts_with("no layer 'upd'; known: eth vlan "));
        assert_eq!(error("vlan id=4096"), "layer 1: vlan id: 4096 is above 4095");
        assert_eq!(error("udp udp src=1 src=2"), "layer 2: udp: 'src' is set twice");
        assert_eq!(
            error("ipv4 src=10.0.0.256"),
            "layer 1: ipv4 src: '10.0.0.256' is no IPv4 address, range (10.0.0.1-10.0.0.9) or \
             prefix (10.0.0.0/24)"
        );
        assert_eq!(error(""), "a packet has at least one layer, for example 'udp'");
        assert_eq!(
            error("dst=5"),
            "'dst=5' sets a field, but of which protocol? write for example 'udp dst=5'"
        );
        assert!(error("udp dst=auto src=auto").contains("'src' is never computed"));
        assert!(error("payload text=\"a b").contains("is not closed"));
        assert!(error("payload hex=abc").contains("even number"));
        assert!(error("udp src=9-1@random").contains("falls"));
        assert!(error("udp src=1@often").contains("'@often' is none of"));
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let complete = |text: &str| match text.parse::<Recipe>().unwrap().complete() {
            Ok(recipe) => recipe.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(complete("udp"), "eth ipv4 udp");
        assert_eq!(complete("vxlan tcp"), "eth ipv4 udp vxlan eth ipv4 tcp");
        assert_eq!(complete("fragment udp"), "eth ipv6 fragment udp");
        assert_eq!(complete("geneve arp"), "eth ipv4 udp geneve eth arp");
        assert_eq!(complete("udp tcp"), "tcp cannot follow udp");
        assert_eq!(complete("payload udp"), "udp cannot follow payload");
        assert_eq!(complete("ipv6 icmp"), "icmp cannot follow ipv6; over IPv6 it is icmpv6");
        assert_eq!(complete("ipv4 icmpv6"), "icmpv6 cannot follow ipv4; over IPv4 it is icmp");
        assert_eq!(complete("eth eth"), "eth cannot follow eth");
    }

    #[test]
    fn text_is_quoted_where_it_must_be() {
        for (text, bytes) in [
            ("payload text=a=b", &b"a=b"[..]),
            ("payload text=\"a b\"", b"a b"),
            ("payload text='a \"b'", b"a \"b"),
            ("payload text=\"\\x00\\n\\\"\"", b"\0\n\""),
            ("payload text=auto", b"auto"),
        ] {
            let recipe: Recipe = text.parse().unwrap();
            assert_eq!(recipe.layers[0].get("text"), Some(&Value::Bytes(bytes.to_vec())), "{text}");
            assert_eq!(recipe.to_string().parse(), Ok(recipe));
        }
    }

    #[test]
    fn values_have_one_notation_each() {
        for text in [
            "udp dst=53",
            "udp dst=53,80",
            "udp dst=53,",
            "udp dst=1-9",
            "udp dst=9-1",
            "udp dst=1-9@step:2",
            "udp dst=65535@step:1:3",
            "udp dst=5@step:-9:3",
            "udp dst=5@step:0:3",
            "udp dst=1-9@random",
            "udp dst=random",
            "udp dst=random:7",
            "ipv4 dst=10.0.0.0/24",
            "ipv4 dst=10.0.0.0/8@random:1",
            "ipv6 dst=2001:db8::/64@random",
            "eth dst=02:00:00:00:00:01-02:00:00:00:00:ff",
            "tcp flags=syn+ack,none",
            "gre checksum=auto key=1",
            "eth type=ipv6",
            "payload fill=random",
        ] {
            assert_eq!(text.parse::<Recipe>().unwrap().to_string(), text);
        }
        for (text, same) in [
            ("udp dst=0x35", "udp dst=53"),
            ("udp dst=1,3-5,9-8", "udp dst=1,3,4,5,9,8"),
            ("udp dst=1-10@step:4", "udp dst=1-9@step:4"),
            ("ipv4 dst=10.0.0.7/24", "ipv4 dst=10.0.0.0/24"),
            ("ipv4 dst=10.0.0.7/32", "ipv4 dst=10.0.0.7"),
            ("ipv4 dst=10.0.0.0-10.0.0.255", "ipv4 dst=10.0.0.0/24"),
        ] {
            assert_eq!(text.parse::<Recipe>().unwrap().to_string(), same);
        }
    }
}
