//! The meaning of `skb->queue_mapping` of a received packet, which depends on the driver.

#[cfg(feature = "serde")]
use serde::Serialize;

/// How a packet's number (`skb->queue_mapping`, which filters read as `SKF_AD_QUEUE`) maps to its
/// receive queue. On transmit it is the transmit queue with every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub(crate) enum QueueMapping {
    /// `skb_record_rx_queue`: 0 for no queue, otherwise the queue plus one. Most drivers. A driver
    /// that never records queues always writes 0: no queue.
    Shifted,
    /// The queue itself; a packet without a queue looks like a packet of queue 0.
    Unshifted,
}

impl QueueMapping {
    /// The receive queue of a packet with `value`; `None` if it has no queue.
    pub(crate) const fn rx_queue(self, value: u16) -> Option<u16> {
        match self {
            QueueMapping::Shifted => value.checked_sub(1),
            QueueMapping::Unshifted => Some(value),
        }
    }
}

/// How `driver` (named as in `ethtool -i`) writes the receive queue. Unknown drivers count as most
/// do.
///
/// * `veth` (checked on Linux 6.18): a packet keeps the sender's transmit queue, unshifted, which
///   is also the number of the receive queue it arrives on (veth_xmit). A packet received through
///   XDP redirect has 0 on any queue.
/// * `tun` (every multi-queue TUN and TAP device; checked): shifted (tun_get_user).
pub(crate) fn rx_mapping(driver: &str) -> QueueMapping {
    match driver {
        "veth" => QueueMapping::Unshifted,
        _ => QueueMapping::Shifted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        assert_eq!(rx_mapping("veth"), QueueMapping::Unshifted);
        for driver in ["tun", "virtio_net", "mlx5_core", "ice", ""] {
            assert_eq!(rx_mapping(driver), QueueMapping::Shifted, "{driver}");
        }
    }

    #[test]
    fn shifted() {
        let mapping = QueueMapping::Shifted;
        assert_eq!(mapping.rx_queue(0), None);
        assert_eq!(mapping.rx_queue(1), Some(0));
    }

    #[test]
    fn unshifted() {
        let mapping = QueueMapping::Unshifted;
        for queue in [0, 1, 7, u16::MAX] {
            assert_eq!(mapping.rx_queue(queue), Some(queue));
        }
    }
}
