//! A line per packet on standard output, as tcpdump prints.

mod arguments;
mod lines;

pub(crate) use self::arguments::{OtherOutputs, PrintArgs};
pub(crate) use self::lines::PacketPrinter;
