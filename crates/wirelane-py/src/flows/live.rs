//! Meters flows of a port or file, with a thread per queue and one that waits for them.

use std::thread::JoinHandle;
use std::time::Duration;

use wirelane::Result;
use wirelane::halt::Halt;
use wirelane::internal::threads;
use wirelane::port::Port;
use wirelane_flow::Sink;
use wirelane_flow::session::{FlowConfig, FlowOutcome, Metering};

use super::ended::MeteringResult;

/// The interval between checks for the end of the threads.
const NAP: Duration = Duration::from_millis(50);

pub(super) fn start(
    port: Port,
    sink: impl Sink + 'static,
    config: &FlowConfig,
    halt: Halt,
) -> Result<JoinHandle<MeteringResult>> {
    let metering = Metering::start(vec![port], vec![Box::new(sink)], config)?;
    threads::spawn("wl-metering", move || {
        let mut has_ended = false;
        while !has_ended && !halt.is_asked() {
            has_ended = metering.wait(NAP);
        }
        let FlowOutcome { metered, flows, queues, ports, errors, .. } = metering.join();
        let notes: Vec<_> = ports.into_iter().flat_map(|port| port.notes).collect();
        MeteringResult::new(&metered, &flows, &queues, &notes, errors)
    })
}
