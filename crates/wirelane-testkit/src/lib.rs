//! Shared parts of Wirelane's tests: gates for tests that need privileges or tools, network
//! namespaces that remove themselves, packet builders, oracles, and checks with Wireshark.
//!
//! Everything here is for tests. Where a library would return an error, functions panic with a
//! message that names the command and its output: a test could not handle the error.
//!
//! Reading order: [`privileged`], [`tools`] and [`kernel`] (may this test run?), [`netns`] and
//! [`veth`] and [`tap`] and [`memory`] (where it runs), [`packets`] (what it sends), [`oracle`] and
//! [`tshark`] (the expected results), [`wait`] (when they arrive), [`c`] and [`libpcap`] (programs
//! in C, and the libpcap that they use), [`installed`] (other programs), [`files`] (their output
//! files).

pub mod browser;
pub mod c;
pub mod files;
pub mod installed;
pub mod kernel;
pub mod libpcap;
pub mod links;
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
pub mod wait;

mod gate;
