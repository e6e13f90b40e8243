//! Where an XDP program runs.

/// Where in the receive path an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel allocates a packet buffer (`XDP_FLAGS_DRV_MODE`).
    Native,
    /// In the network stack, with any driver, after a buffer was made (`XDP_FLAGS_SKB_MODE`).
    Generic,
    /// In the hardware (`XDP_FLAGS_HW_MODE`).
    Offloaded,
}
