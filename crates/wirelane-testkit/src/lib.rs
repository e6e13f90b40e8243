//! What Wirelane's tests share: gates for tests that need privileges or tools, network namespaces
//! that clean up after themselves, packet builders, oracles, and a second opinion from Wireshark.
//!
//! Everything here is for tests. Functions panic, with a message that names the command and its
//! output, where a library would return an error: a test has nothing better to do with it.
//!
//! Reading order: [`privileged`], [`tools`] and [`kernel`] (may this test run?), [`netns`] and
//! [`veth`] and [`tap`] and [`memory`] (where it runs), [`packets`] (what it sends), [`oracle`] and
//! [`tshark`] (what is right), [`c`] and [`libpcap`] (programs in C, and over which libpcap they
//! run), [`installed`] (other programs), [`files`] (what they left).

pub mod browser;
pub mod c;
pub mod files;
pub mod installed;
pub mod kernel;
pub mod libpcap;
pub mod memory;
pub mod netns;
pub mod oracle;
pub mod packets;
pub mod privileged;
pub mod process;
pub mod tap;
pub mod tools;
pub mod tshark;
pub mod veth;

mod gate;
