//! Reads arbitrary bytes as a pcap file. The reader ends after an error, and packets have no more
//! bytes than the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_pcap::pcap::PcapReader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = PcapReader::new(bytes, "fuzz");
    let mut total = 0;
    while let Ok(true) = reader.advance() {
        let record = reader.current();
        assert!((record.interface as usize) < reader.interfaces().len());
        total += record.data.len();
        assert!(total <= bytes.len());
    }
    assert!(matches!(reader.advance(), Ok(false)), "after an error the end is reached");
});
