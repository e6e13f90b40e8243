//! The bytes of a packet below its line.

use crate::line::TextLine;

const PER_LINE: usize = 16;

/// Adds bytes as text (`-A`), with a dot for each unprintable byte.
pub(crate) fn ascii(line: &mut TextLine<'_>, bytes: &[u8]) {
    line.put("\n");
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' => _ = line.put("\n"),
            b'\t' => _ = line.put("\t"),
            // A carriage return is part of a line ending.
            b'\r' if matches!(bytes.get(at + 1), Some(b'\n') | None) => {}
            b' ' => _ = line.put(" "),
            _ => letter(line, byte),
        }
    }
}

/// Adds bytes as numbers (`-x`), and also as text (`-X`).
pub(crate) fn hex(line: &mut TextLine<'_>, bytes: &[u8], with_text: bool) {
    for (number, row) in bytes.chunks(PER_LINE).enumerate() {
        // Packets are at most 256 KiB long; an offset that does not fit wraps.
        line.put("\n\t0x").hex4((number * PER_LINE) as u16).put(": ");
        for pair in row.chunks(2) {
            line.put(" ").hex_bytes(pair);
        }
        if with_text {
            let width = row.len() * 2 + row.len().div_ceil(2);
            line.put("                                          ".get(width..).unwrap_or_default());
            for &byte in row {
                letter(line, byte);
            }
        }
    }
}

fn letter(line: &mut TextLine<'_>, byte: u8) {
    match std::str::from_utf8(&[byte]) {
        Ok(text) if byte.is_ascii_graphic() => line.put(text),
        _ => line.put("."),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::text;

    #[test]
    fn rows_are_those_of_tcpdump() {
        let bytes: Vec<u8> = (0x30..0x43).collect();
        assert_eq!(
            text(|line| hex(line, &bytes, true)),
            "\n\t0x0000:  3031 3233 3435 3637 3839 3a3b 3c3d 3e3f  0123456789:;<=>?\
             \n\t0x0010:  4041 42                                  @AB"
        );
        assert_eq!(text(|line| hex(line, &[1, 2, 3], false)), "\n\t0x0000:  0102 03");
    }

    #[test]
    fn text_keeps_its_lines() {
        assert_eq!(text(|line| ascii(line, b"GET /\r\n\x1b\xff")), "\nGET /\n..");
    }
}
