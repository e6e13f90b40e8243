//! What `skb->queue_mapping` of a received packet means: it depends on the driver.

#[cfg(feature = "serde")]
use serde::Serialize;

/// How the number that a packet carries (`skb->queue_mapping`, which a filter reads as
/// `SKF_AD_QUEUE`) gives its receive queue. On transmit it is the transmit queue with every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum QueueMapping {
    /// `skb_record_rx_queue`: 0 for no queue, else the queue plus one. Most drivers. One that never
    /// records its queues writes 0 always, which is then what it says: no queue.
    Shifted,
    /// The queue itself; a packet tied to no queue cannot be told from one of queue 0.
    Unshifted,
}

impl QueueMapping {
    /// The receive queue of a packet that carries `value`, or `None` when it is tied to no queue.
    pub const fn rx_queue(self, value: u16) -> Option<u16> {
        match self {
            QueueMapping::Shifted => value.checked_sub(1),
            QueueMapping::Unshifted => Some(value),
        }
    }
}

/// How `driver` (as `ethtool -i` names it) writes the receive queue; for a driver not known to
/// differ, as most do.
///
/// * `veth` (checked on Linux 6.18): a packet keeps the sender's transmit queue, unshifted, which
///   is also the number of the receive queue it arrives on (veth_xmit). A packet that came by XDP
///   redirect carries 0 whatever its queue.
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
