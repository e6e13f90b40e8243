//! DNS: the questions, and a summary of the answers.

use crate::bytes::{CapturedBytes, Truncated};
use crate::line::TextLine;
use crate::style::Style;

const HEADER_LEN: usize = 12;
const RESPONSE: u16 = 0x8000;
/// The most pointers and labels followed for one name: a name has at most 127 labels (RFC 1035
/// section 2.3.4).
const MAX_STEPS: usize = 256;
const OPERATIONS: [&str; 6] = ["", " inv_q", " stat", " op3", " notify", " update"];
const ERRORS: [&str; 11] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
];

/// Prints a message and its length.
pub(super) fn print(
    line: &mut TextLine<'_>,
    style: &Style,
    message: CapturedBytes<'_>,
    multicast: bool,
) {
    if message.len() < HEADER_LEN {
        line.put("domain [length ").count(message.len()).put(" < 12] (invalid)");
        return;
    }
    match print_message(line, style, message, multicast) {
        Ok(()) => _ = line.put(" (").count(message.len()).put(")"),
        Err(Truncated) => _ = line.put(" [|domain]"),
    }
}

fn print_message(
    line: &mut TextLine<'_>,
    style: &Style,
    message: CapturedBytes<'_>,
    multicast: bool,
) -> Result<(), Truncated> {
    let flags = message.be16(2)?;
    let [questions, answers, authorities, additional] =
        [message.be16(4)?, message.be16(6)?, message.be16(8)?, message.be16(10)?];
    line.number(message.be16(0)?);
    let operation = usize::from(flags >> 11 & 15);
    match OPERATIONS.get(operation) {
        Some(name) => line.put(name),
        None => line.put(" op").count(operation),
    };
    let mut at = HEADER_LEN;
    if flags & RESPONSE == 0 {
        line.put(if flags & 0x0100 != 0 { "+" } else { "" }).put(if flags & 0x0010 != 0 {
            "%"
        } else {
            ""
        });
        if flags & 0x06cf != 0 {
            line.put(" [b2&3=0x").hex(flags.into()).put("]");
        }
        let counts = [
            (answers, 0, "a]"),
            (questions, 1, "q]"),
            (authorities, 0, "n]"),
            (additional, 0, "au]"),
        ];
        for (count, usual, unit) in counts {
            if count != usual {
                line.put(" [").number(count).put(unit);
            }
        }
        for _ in 0..questions {
            at = print_question(line, message, at, multicast)?;
        }
        return Ok(());
    }
    let error = usize::from(flags & 15);
    match ERRORS.get(error) {
        Some(name) => line.put(name),
        None => line.put(" Resp").count(error),
    };
    for (set, shown) in [
        (flags & 0x0400 != 0, "*"),
        (flags & 0x0080 == 0, "-"),
        (flags & 0x0200 != 0, "|"),
        (flags & 0x0020 != 0, "$"),
    ] {
        line.put(if set { shown } else { "" });
    }
    if questions != 1 {
        line.put(" [").number(questions).put("q]");
    }
    for number in 0..questions {
        line.put(if number > 0 { "," } else { "" });
        if style.verbose > 1 {
            line.put(" q:");
            at = print_question(line, message, at, multicast)?;
        } else {
            at = skip_name(message, at)? + 4;
        }
    }
    line.put(" ").number(answers).put("/").number(authorities).put("/").number(additional);
    for number in 0..answers {
        line.put(if number > 0 { "," } else { "" });
        at = print_record(line, style, message, at, multicast)?;
    }
    Ok(())
}

fn print_question(
    line: &mut TextLine<'_>,
    message: CapturedBytes<'_>,
    at: usize,
    multicast: bool,
) -> Result<usize, Truncated> {
    let end = skip_name(message, at)?;
    let class = message.be16(end + 2)?;
    print_type(line.put(" "), message.be16(end)?);
    print_class(line, if multicast { class & 0x7fff } else { class });
    if multicast {
        line.put(if class & 0x8000 != 0 { " (QU)" } else { " (QM)" });
    }
    line.put("? ");
    print_name(line, message, at)?;
    Ok(end + 4)
}

fn print_record(
    line: &mut TextLine<'_>,
    style: &Style,
    message: CapturedBytes<'_>,
    at: usize,
    multicast: bool,
) -> Result<usize, Truncated> {
    if style.verbose > 0 {
        line.put(" ");
        print_name(line, message, at)?;
    }
    let at = skip_name(message, at)?;
    let (kind, class) = (message.be16(at)?, message.be16(at + 2)?);
    if kind != 41 {
        print_class(line, if multicast { class & 0x7fff } else { class });
    }
    if multicast && class & 0x8000 != 0 {
        line.put(" (Cache flush)");
    }
    let len = usize::from(message.be16(at + 8)?);
    let data = at + 10;
    print_type(line.put(" "), kind);
    match kind {
        1 => _ = line.put(" ").ipv4(message.array(data)?),
        28 => _ = line.put(" ").ipv6(message.array(data)?),
        2 | 5 | 12 | 39 => print_name(line.put(" "), message, data)?,
        15 => {
            print_name(line.put(" "), message, data + 2)?;
            line.put(" ").number(message.be16(data)?);
        }
        16 => print_strings(line, message.slice(data, len)?),
        33 => {
            print_name(line.put(" "), message, data + 6)?;
            line.put(":").number(message.be16(data + 4)?).put(" ").number(message.be16(data)?);
            line.put(" ").number(message.be16(data + 2)?);
        }
        _ => {}
    }
    message.slice(data, len)?;
    Ok(data + len)
}

fn print_strings(line: &mut TextLine<'_>, mut data: &[u8]) {
    while let Some((&len, rest)) = data.split_first() {
        let (string, rest) = rest.split_at_checked(len.into()).unwrap_or((rest, &[]));
        line.put(" \"").foreign(string).put("\"");
        data = rest;
    }
}

fn print_name(
    line: &mut TextLine<'_>,
    message: CapturedBytes<'_>,
    mut at: usize,
) -> Result<(), Truncated> {
    let mut any = false;
    for _ in 0..MAX_STEPS {
        let len = usize::from(message.u8(at)?);
        match len >> 6 {
            0 if len == 0 => {
                line.put(if any { "" } else { "." });
                return Ok(());
            }
            0 => {
                line.foreign(message.slice(at + 1, len)?).put(".");
                any = true;
                at += 1 + len;
            }
            3 => at = usize::from(message.be16(at)? & 0x3fff),
            _ => break,
        }
    }
    Err(Truncated)
}

fn skip_name(message: CapturedBytes<'_>, mut at: usize) -> Result<usize, Truncated> {
    loop {
        let len = usize::from(message.u8(at)?);
        match len >> 6 {
            0 if len == 0 => return Ok(at + 1),
            0 => at += 1 + len,
            3 => return Ok(at + 2),
            _ => return Err(Truncated),
        }
    }
}

fn print_class(line: &mut TextLine<'_>, class: u16) {
    match class {
        1 => {}
        3 => _ = line.put(" CHAOS"),
        4 => _ = line.put(" HS"),
        255 => _ = line.put(" ANY"),
        _ => _ = line.put(" (Class ").number(class).put(")"),
    }
}

fn print_type(line: &mut TextLine<'_>, kind: u16) {
    let name = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        10 => "NULL",
        12 => "PTR",
        13 => "HINFO",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        29 => "LOC",
        33 => "SRV",
        35 => "NAPTR",
        39 => "DNAME",
        41 => "OPT",
        43 => "DS",
        44 => "SSHFP",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        52 => "TLSA",
        64 => "SVCB",
        65 => "HTTPS",
        99 => "SPF",
        249 => "TKEY",
        250 => "TSIG",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        256 => "URI",
        257 => "CAA",
        _ => {
            line.put("Type").number(kind);
            return;
        }
    };
    line.put(name);
}
