//! Parses capture files without a library.

/// A capture file of the old format, in this machine's byte order.
pub(crate) struct Capture {
    /// The header: magic, version, snap length, link type.
    pub(crate) header: Vec<u8>,
    pub(crate) records: Vec<Record>,
}

pub(crate) struct Record {
    pub(crate) seconds: u32,
    /// Microseconds or nanoseconds, by the magic.
    pub(crate) fraction: u32,
    pub(crate) original_len: u32,
    pub(crate) data: Vec<u8>,
}

impl Capture {
    #[track_caller]
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let (header, mut rest) = bytes.split_at(24);
        let mut records = Vec::new();
        while let Some((head, tail)) = rest.split_at_checked(16) {
            let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
            let (data, tail) = tail.split_at(word(8) as usize);
            let (seconds, fraction, original_len) = (word(0), word(4), word(12));
            records.push(Record { seconds, fraction, original_len, data: data.to_vec() });
            rest = tail;
        }
        assert!(rest.is_empty(), "{} bytes after the last record", rest.len());
        Self { header: header.to_vec(), records }
    }

    /// One line per packet, without its time.
    pub(crate) fn lines(&self) -> String {
        let line = |it: &Record| format!("{} {:02x?}\n", it.original_len, it.data);
        self.records.iter().map(line).collect()
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.records.is_sorted_by_key(|it| (it.seconds, it.fraction))
    }
}

/// Fails unless both files hold the same packets in the same order, times aside, and times do not
/// run backwards.
#[track_caller]
pub(crate) fn assert_same_packets(what: &str, files: [&[u8]; 2]) -> Capture {
    let [stock, ours] = files.map(Capture::parse);
    assert_eq!(stock.header, ours.header, "{what}: the header");
    crate::bed::assert_same(what, &stock.lines(), &ours.lines());
    assert!(stock.is_in_order(), "{what}: stock's times run backwards");
    assert!(ours.is_in_order(), "{what}: our times run backwards");
    ours
}
