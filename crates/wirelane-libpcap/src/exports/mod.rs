//! The functions of `pcap/pcap.h`, by group.
