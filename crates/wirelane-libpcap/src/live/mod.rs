//! A capture: a port of ours, opened as the options say.
//!
//! * `options`: what the program sets before activation.
//! * `activate`: from the options to an open port, with libpcap's statuses and texts.
//! * `links`: the types of link headers that a device offers.
//! * `memory`: how large the rings are.
//! * `timestamps`: who can take the time of packets.

mod activate;
mod links;
mod memory;
mod options;
mod timestamps;

use std::ffi::c_int;
use std::sync::Arc;

use wirelane::port::{Control, Port, Rx};

use crate::device::Opening;
use crate::failure::Failure;
pub(crate) use activate::{Activation, examine};
use links::Links;
pub(crate) use options::{Options, Precision};

/// An activated handle.
pub(crate) struct Live {
    /// What was set before activation; the snap length is the one in force.
    pub(crate) options: Options,
    /// Where packets come from.
    pub(crate) rx: Vec<Rx>,
    /// Masks, filter and stop of the port.
    pub(crate) control: Arc<dyn Control>,
    /// The types of link headers.
    pub(crate) links: Links,
    /// The network interface, if it is one.
    pub(crate) interface: Option<String>,
    /// The port, which ends with it.
    pub(crate) port: Port,
}

impl Live {
    /// Opens the port, which takes packets from now on. A warning does not keep it from working.
    ///
    /// # Errors
    /// What libpcap gives, where it gives an error for that.
    pub(crate) fn open(
        options: &Options,
        opening: &Opening,
    ) -> Result<(Box<Self>, Option<Failure>), Failure> {
        let activate::Opened { mut port, links, snaplen, warning } =
            activate::open(options, opening)?;
        let rx = port.rx();
        let control = port.control();
        port.start()?;
        let options = Options { snaplen, ..options.clone() };
        let interface = opening.interface().map(str::to_owned);
        Ok((Box::new(Self { options, rx, control, links, interface, port }), warning))
    }

    /// The type of the link headers, as `DLT_…`.
    pub(crate) fn datalink(&self) -> c_int {
        self.links.current
    }

    /// Bytes kept of a packet.
    pub(crate) fn snaplen(&self) -> u32 {
        u32::try_from(self.options.snaplen).unwrap_or(0)
    }
}
