//! Reads arbitrary bytes as a stream of IPFIX messages. As many flows as were decoded arrive
//! through a pipe.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_flow::Flow;
use wirelane_flow::ipfix::{Decoder, Pipe, element, read_message};

fuzz_target!(|data: &[u8]| {
    let flows = read(data);
    let mut bytes = Vec::new();
    let mut pipe = Pipe::new(&mut bytes);
    for flow in &flows {
        pipe.add(flow).expect("memory takes all");
    }
    pipe.flush().expect("memory takes all");
    assert_eq!(read(&bytes).len(), flows.len());
});

fn read(mut stream: &[u8]) -> Vec<Flow> {
    let (mut decoder, mut message) = (Decoder::new(Some(element::EXAMPLE)), Vec::new());
    let mut flows = Vec::new();
    while read_message(&mut stream, &mut message).unwrap_or(false) {
        let _ = decoder.decode(&message, &mut flows);
    }
    flows
}
