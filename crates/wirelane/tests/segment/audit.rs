//! A harness for property tests and fuzzing: audits arbitrary packets, and checks that the findings
//! match the summary.

use wirelane_verify::{Auditor, Finding, Options, Packet, Rule, Severity};

/// Reads options from the first four bytes, and packets from the rest. Each packet begins with its
/// length (two bytes), a byte for the interface and the link type, and a byte for the number of
/// bytes cut off its end.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&[flags, mtu, flows, fragments], mut rest)) = bytes.split_first_chunk() else {
        return;
    };
    let options = Options {
        mtu: (flags & 1 != 0).then_some(u32::from(mtu) * 16),
        strict: flags & 2 != 0,
        flows: flows.into(),
        fragments: fragments.into(),
    };
    let mut auditor = Auditor::new(options);
    let (mut packets, mut violations, mut notes) = (0, 0, 0);
    let mut found = |number: u64, finding: &Finding| {
        assert!((1..=number).contains(&finding.packet), "{finding}");
        match finding.severity {
            Severity::Violation => violations += 1,
            Severity::Note => notes += 1,
        }
        assert!(!finding.to_string().contains('\n'));
    };
    while let Some((&[high, low, from, cut], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(after.len());
        let (data, behind) = after.split_at(length);
        rest = behind;
        packets += 1;
        const LINK_TYPES: [u16; 8] = [1, 1, 1, 101, 113, 276, 0, 147];
        let packet = Packet {
            interface: u32::from(from & 3),
            link_type: LINK_TYPES[usize::from(from >> 5)],
            timestamp: packets * 1000,
            original_len: (length + usize::from(cut)) as u32,
            data,
        };
        auditor.packet(&packet, &mut |finding| found(packets, finding));
    }
    auditor.finish(&mut |finding| found(packets, finding));
    let summary = auditor.summary();
    assert_eq!(
        (summary.packets, summary.violations(), summary.notes()),
        (packets, violations, notes)
    );
    for rule in Rule::ALL {
        let counts = summary.rule(rule);
        assert_eq!(counts.first.is_some(), counts.violations + counts.notes > 0, "{rule}");
        assert!(!options.strict || counts.left + counts.notes == 0, "{rule}");
    }
}

/// Writes the format that [`run`] reads.
#[cfg_attr(fuzzing, allow(dead_code))]
pub(crate) fn input(head: [u8; 4], packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = head.to_vec();
    for (interface, packet) in packets {
        bytes.extend((packet.len() as u16).to_be_bytes());
        bytes.extend([*interface as u8 & 3, 0]);
        bytes.extend(packet);
    }
    bytes
}
