//! Prints arbitrary bytes as captured packets: the lines are printable and end with a line feed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_print::{Dump, Packet, Printer, Style};

const LINK_TYPES: [u16; 8] = [0, 1, 101, 108, 113, 228, 276, 127];

fuzz_target!(|bytes: &[u8]| {
    let [options, longer, data @ ..] = bytes else { return };
    let style = Style {
        link: options & 8 != 0,
        verbose: (options >> 4) & 3,
        dump: Dump::Both { link: options & 64 != 0 },
        ..Style::default()
    };
    let packet = Packet {
        timestamp: 1,
        place: "eth0 rx2",
        link_type: LINK_TYPES[usize::from(options & 7)],
        original_len: data.len() as u32 + u32::from(*longer),
        data,
        comment: None,
    };
    let mut text = String::new();
    let mut printer = Printer::new(style);
    printer.print(&packet, &mut text);
    printer.print(&packet, &mut text);
    assert!(text.ends_with('\n'));
    assert!(text.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')));
});
