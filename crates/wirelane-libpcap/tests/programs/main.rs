//! Unchanged programs of Debian over the drop-in and the stock libpcap, on the same packets. Except
//! for times, they must print and write the same.
//!
//! `traffic.rs` makes the packets. `bed.rs` starts a program twice on one interface, once over each
//! library, replays the packets to it, and returns what both left. The other files each hold the
//! programs of one kind.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod bed;
mod capture;
mod flows;
mod linked;
mod processes;
mod readers;
mod scan;
mod scapy;
mod send;
mod suricata;
mod tcpdump;
mod traffic;
mod wireshark;
