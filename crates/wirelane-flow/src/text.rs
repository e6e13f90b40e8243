//! Flows as JSON lines and CSV.

use std::io::Write as _;
use std::net::IpAddr;

use wirelane_wire::date;
use wirelane_wire::text::{escaped, is_hostile};

use crate::community::write_community_id;
use crate::fields::Fields;
use crate::flow::Flow;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// A JSON object per line, without absent fields.
    JsonLines,
    /// RFC 4180, with a header line. Absent fields are empty.
    Csv,
}

/// Formats flows as text.
#[derive(Debug)]
pub struct Text {
    format: TextFormat,
    clock: TimeFormatter,
    has_head: bool,
}

impl Text {
    /// A writer of this format.
    pub fn new(format: TextFormat) -> Self {
        Self { format, clock: TimeFormatter::default(), has_head: format == TextFormat::JsonLines }
    }

    /// Appends the header before the first flow, once.
    pub fn head(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_head, true) {
            let mut names = TextNames(out);
            Flow::default().fields(&mut names);
            end_line(out);
        }
    }

    /// Appends the line of a flow.
    pub fn push(&mut self, flow: &Flow, out: &mut Vec<u8>) {
        self.head(out);
        match self.format {
            TextFormat::JsonLines => {
                out.push(b'{');
                flow.fields(&mut Json { out, clock: &mut self.clock });
                out.pop();
                out.extend_from_slice(b"}\n");
            }
            TextFormat::Csv => {
                flow.fields(&mut Csv { out, clock: &mut self.clock });
                end_line(out);
            }
        }
    }
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Replaces the last comma of a CSV line with a line end.
fn end_line(out: &mut Vec<u8>) {
    out.pop();
    out.push(b'\n');
}

struct TextNames<'a>(&'a mut Vec<u8>);

impl Fields for TextNames<'_> {
    fn number(&mut self, name: &'static str, _: u64) {
        self.absent(name);
    }

    fn word(&mut self, name: &'static str, _: &str) {
        self.absent(name);
    }

    fn address(&mut self, name: &'static str, _: IpAddr) {
        self.absent(name);
    }

    fn time(&mut self, name: &'static str, _: u64) {
        self.absent(name);
    }

    fn community(&mut self, name: &'static str, _: &[u8; 20]) {
        self.absent(name);
    }

    fn absent(&mut self, name: &'static str) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b',');
    }
}

struct Json<'a> {
    out: &'a mut Vec<u8>,
    clock: &'a mut TimeFormatter,
}

impl Json<'_> {
    fn name(&mut self, name: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn quoted(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.name(name);
        self.out.push(b'"');
        write(self);
        self.out.extend_from_slice(b"\",");
    }
}

impl Fields for Json<'_> {
    fn number(&mut self, name: &'static str, value: u64) {
        self.name(name);
        number(self.out, value);
        self.out.push(b',');
    }

    fn word(&mut self, name: &'static str, value: &str) {
        self.quoted(name, |to| {
            for c in value.chars() {
                match c {
                    '"' | '\\' => to.out.extend([b'\\', c as u8]),
                    c if is_hostile(c) => {
                        let _ = write!(to.out, "\\u{:04x}", c as u32);
                    }
                    c => push(to.out, c),
                }
            }
        });
    }

    fn address(&mut self, name: &'static str, value: IpAddr) {
        self.quoted(name, |to| address(to.out, value));
    }

    fn time(&mut self, name: &'static str, value: u64) {
        self.quoted(name, |to| to.clock.write(to.out, value));
    }

    fn community(&mut self, name: &'static str, digest: &[u8; 20]) {
        self.quoted(name, |to| write_community_id(digest, to.out));
    }

    fn absent(&mut self, _: &'static str) {}
}

struct Csv<'a> {
    out: &'a mut Vec<u8>,
    clock: &'a mut TimeFormatter,
}

impl Fields for Csv<'_> {
    fn number(&mut self, _: &'static str, value: u64) {
        number(self.out, value);
        self.out.push(b',');
    }

    fn word(&mut self, _: &'static str, value: &str) {
        let quotes = value.contains([',', '"']);
        if quotes {
            self.out.push(b'"');
        }
        for c in value.chars() {
            match c {
                '"' => self.out.extend_from_slice(b"\"\""),
                // Users read CSV on terminals, and CSV has no escapes.
                c => escaped(c).for_each(|c| push(self.out, c)),
            }
        }
        if quotes {
            self.out.push(b'"');
        }
        self.out.push(b',');
    }

    fn address(&mut self, _: &'static str, value: IpAddr) {
        address(self.out, value);
        self.out.push(b',');
    }

    fn time(&mut self, _: &'static str, value: u64) {
        self.clock.write(self.out, value);
        self.out.push(b',');
    }

    fn community(&mut self, _: &'static str, digest: &[u8; 20]) {
        write_community_id(digest, self.out);
        self.out.push(b',');
    }

    fn absent(&mut self, _: &'static str) {
        self.out.push(b',');
    }
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (position, octet) in address.octets().into_iter().enumerate() {
                if position > 0 {
                    out.push(b'.');
                }
                number(out, octet.into());
            }
        }
        IpAddr::V6(address) => {
            let _ = write!(out, "{address}");
        }
    }
}

/// Formats times as RFC 3339. It caches the text of the last second, which most times share.
#[derive(Debug, Default)]
struct TimeFormatter {
    second: u64,
    text: Vec<u8>,
}

impl TimeFormatter {
    fn write(&mut self, out: &mut Vec<u8>, time: u64) {
        let (second, mut rest) = (time / 1_000_000_000, time % 1_000_000_000);
        if self.text.is_empty() || second != self.second {
            let (year, month, day) = date::of_day(second / 86_400);
            let of_day = second % 86_400;
            let (hour, minute) = (of_day / 3_600, of_day / 60 % 60);
            self.second = second;
            self.text.clear();
            let _ = write!(
                self.text,
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.",
                of_day % 60
            );
        }
        out.extend_from_slice(&self.text);
        let mut digits = [b'0'; 10];
        digits[9] = b'Z';
        for digit in digits.iter_mut().rev().skip(1) {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Half;

    fn text(format: TextFormat, flows: &[Flow]) -> String {
        let (mut text, mut out) = (Text::new(format), Vec::new());
        flows.iter().for_each(|flow| text.push(flow, &mut out));
        String::from_utf8(out).unwrap()
    }

    fn flow() -> Flow {
        let start = 1_795_401_704_123_456_789;
        let forward = Half { packets: 2, octets: 100, start, end: start + 1, ..Half::default() };
        Flow { forward, interface: "a\"b,\n".into(), ..Flow::default() }
    }

    #[test]
    fn json_is_json() {
        let line = text(TextFormat::JsonLines, &[flow()]);
        assert!(line.starts_with(
            "{\"flow_start\":\"2026-11-23T02:41:44.123456789Z\",\
             \"flow_end\":\"2026-11-23T02:41:44.123456790Z\",\"end_reason\":\"forced\",\
             \"interface\":\"a\\\"b,\\u000a\",\"community_id\":\"1:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\","
        ));
        assert!(
            line.contains("\"packets\":2,\"octets\":100,")
                && line.ends_with("\"reverse_payload\":0}\n")
        );
        assert!(!line.contains("vlan"));
    }

    #[test]
    fn every_line_of_csv_has_all_fields() {
        let text = text(TextFormat::Csv, &[Flow::default(), Flow::default()]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let counts: Vec<_> = lines.iter().map(|line| line.split(',').count()).collect();
        assert_eq!(counts, [counts[0]; 3]);
        assert!(lines[0].starts_with("flow_start,flow_end,end_reason,interface,"));
    }

    #[test]
    fn every_field_is_documented() {
        let document = include_str!("../../../docs/flows.md");
        let text = text(TextFormat::Csv, &[]);
        assert_eq!(text, "", "without flows, only what is asked for");
        let mut head = Vec::new();
        Text::new(TextFormat::Csv).head(&mut head);
        let names = String::from_utf8(head).unwrap();
        let mut explained = Vec::new();
        for name in names.trim_end().split(',') {
            let of_the_way_back = name.strip_prefix("reverse_").map(|name| format!("| `{name}` |"));
            let times = ["reverse_start", "reverse_end"].contains(&name);
            let row = format!("| `{name}` |");
            let is_there =
                |row: &String| document.lines().any(|line| line.starts_with(row.as_str()));
            assert!(
                is_there(&row) || of_the_way_back.is_some_and(|row| is_there(&row)) || times,
                "{name}"
            );
            explained.push(row);
        }
        // The document has no other fields.
        let fields = document.split("## Fields").nth(1).unwrap().split("\n## ").next().unwrap();
        for line in fields.lines().filter(|line| line.starts_with("| `")) {
            assert!(explained.iter().any(|row| line.starts_with(row.as_str())), "{line}");
        }
    }

    #[test]
    fn words_of_csv_are_quoted() {
        assert!(text(TextFormat::Csv, &[flow()]).contains(",forced,\"a\"\"b,\\n\",1:AAAA"));
    }
}
