//! Runs a program without an interface: on one packet, for its result, and on live frames, to send
//! them.

use std::os::fd::AsRawFd;

use super::program::Program;
use super::uapi::{self, XdpMd};
use crate::error::{OsError, Result};

const CALL: &str = "bpf BPF_PROG_TEST_RUN";

/// The simulated origin of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// An interface of the calling thread's network namespace, by index.
    pub ifindex: u32,
    /// A receive queue of the interface. The queue must support XDP: on veth only while the
    /// interface is up with a program (`xdp_rxq_info_is_reg` in `xdp_convert_md_to_buff`). `lo`
    /// always supports it, with queue 0.
    pub queue: u32,
}

/// The result of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its result, for XDP an [`super::XdpAction`] as a number.
    pub result: u32,
    /// The packet after the run.
    pub output: Vec<u8>,
    /// The average duration of a run, in nanoseconds.
    pub duration_ns: u32,
}

impl Program {
    /// Runs the program `repeat` times on `data`, an Ethernet frame of at least 14 bytes, and sends
    /// the packet nowhere. `arrival` is for XDP (Linux 5.14); `None` means `lo`.
    ///
    /// A socket filter sees the frame from the network header on, with the protocol in its Ethernet
    /// header. It returns the frame with a cleared Ethernet header (`bpf_prog_test_run_skb`).
    ///
    /// # Errors
    /// `EINVAL` for an impossible arrival, or a frame that is too short or longer than a page (XDP
    /// with [`super::Load::frags`]: longer than 17 pages). `EPERM` without the capabilities that
    /// loading needs.
    pub fn test_run(&self, data: &[u8], arrival: Option<Arrival>, repeat: u32) -> Result<Outcome> {
        // A program may grow the packet by the available headroom (bpf_xdp_adjust_head).
        let mut output = vec![0_u8; data.len() + 4096];
        let mut context = context(data, arrival);
        let mut attr = uapi::TestRun {
            data_size_out: output.len() as u32,
            data_out: output.as_mut_ptr() as u64,
            repeat: repeat.max(1),
            ..self.attributes(data, context.as_mut())
        };
        // SAFETY: packet, context and output live through the call, and have the stated lengths.
        unsafe { uapi::bpf(uapi::BPF_PROG_TEST_RUN, &mut attr) }
            .map_err(|error| self.failed(error))?;
        output.truncate(attr.data_size_out as usize);
        Ok(Outcome { result: attr.retval, output, duration_ns: attr.duration })
    }

    /// Runs the XDP program on `repeat` copies of `data` and performs the action for each:
    /// `Redirect` sends it to the helper's target, `Tx` out of the interface of `arrival`, and
    /// `Pass` to the host as if it had arrived there. Linux 5.18.
    ///
    /// The kernel allocates the packets from a pool, initialises each page only once, and passes it
    /// to the program with the changes of earlier runs (`xdp_test_run_init_page`). Sent packets are
    /// flushed after every `batch` packets (64 if 0, at most 256). A signal ends the run early,
    /// with `EINTR`.
    ///
    /// # Errors
    /// As [`Program::test_run`]; `EINVAL` on older kernels and for a frame that does not fit into a
    /// page with its metadata (about 3500 bytes with 4 KiB pages), `E2BIG` for a larger batch,
    /// `EINTR`, or an error of the redirect.
    pub fn live_frames(
        &self,
        data: &[u8],
        arrival: Option<Arrival>,
        repeat: u32,
        batch: u32,
    ) -> Result<()> {
        if repeat == 0 {
            return Ok(()); // the kernel would take it for 1
        }
        let mut context = context(data, arrival);
        let mut attr = uapi::TestRun {
            repeat,
            flags: uapi::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: batch,
            ..self.attributes(data, context.as_mut())
        };
        // SAFETY: packet and context live through the call, and have the stated lengths.
        unsafe { uapi::bpf(uapi::BPF_PROG_TEST_RUN, &mut attr) }
            .map(drop)
            .map_err(|error| self.failed(error))
    }

    fn attributes(&self, data: &[u8], context: Option<&mut XdpMd>) -> uapi::TestRun {
        let mut attr = uapi::TestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            // A length beyond 32 bits becomes u32::MAX, which the kernel refuses before it reads.
            data_size_in: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data_in: data.as_ptr() as u64,
            ..uapi::TestRun::default()
        };
        if let Some(context) = context {
            attr.ctx_size_in = size_of::<XdpMd>() as u32;
            attr.ctx_in = std::ptr::from_mut(context) as u64;
        }
        attr
    }

    fn failed(&self, error: std::io::Error) -> OsError {
        OsError::new(CALL, format!("program {}", self.name), error)
    }
}

fn context(data: &[u8], arrival: Option<Arrival>) -> Option<XdpMd> {
    arrival.map(|Arrival { ifindex, queue }| XdpMd {
        data_end: u32::try_from(data.len()).unwrap_or(u32::MAX),
        ingress_ifindex: ifindex,
        rx_queue_index: queue,
        ..XdpMd::default()
    })
}
