//! The system's libpcap.

mod pcap;

pub(crate) use pcap::{Pcap, Real};
