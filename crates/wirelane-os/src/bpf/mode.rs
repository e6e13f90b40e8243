//! The mode of an XDP program.

/// The place in the receive path where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel allocates a packet buffer (`XDP_FLAGS_DRV_MODE`).
    Native,
    /// In the network stack, with any driver, after the allocation of a packet buffer
    /// (`XDP_FLAGS_SKB_MODE`).
    Generic,
    /// In the hardware (`XDP_FLAGS_HW_MODE`).
    Offloaded,
}
