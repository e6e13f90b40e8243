//! Creates and maps the rings of a socket.

use std::os::fd::AsFd;

use super::ring::{RingRequest, SlotRingRequest, Version};
use super::socket::PacketSocket;
use super::uapi::{TP_FT_REQ_FILL_RXHASH, TpacketReq, TpacketReq3, option};
use crate::error::Result;
use crate::mmap::Mapping;
use crate::socket::{self, Plain};

impl PacketSocket {
    /// Chooses the ring layout.
    ///
    /// # Errors
    /// `EBUSY` when the socket already has a ring.
    pub fn set_version(&self, version: Version) -> Result<()> {
        self.set(option::VERSION, &(version as i32), "setsockopt PACKET_VERSION")
    }

    /// [`PacketSocket::set_version`] with [`Version::V3`].
    ///
    /// # Errors
    /// As there.
    pub fn set_version_v3(&self) -> Result<()> {
        self.set_version(Version::V3)
    }

    /// The chosen ring layout; `None` for version 1, the initial one.
    ///
    /// # Errors
    /// The errors of getsockopt(2).
    pub fn version(&self) -> Result<Option<Version>> {
        let version: i32 = socket::get(
            self.as_fd(),
            (libc::SOL_PACKET, option::VERSION),
            "getsockopt PACKET_VERSION",
        )?;
        Ok([Version::V2, Version::V3].into_iter().find(|known| *known as i32 == version))
    }

    /// Makes the RX ring; the version must be 3. It is the first ring in the mapping of
    /// [`PacketSocket::map`].
    ///
    /// # Errors
    /// `EINVAL` for sizes that the kernel refuses, `ENOMEM` when it has no memory for the blocks.
    pub fn set_rx_ring(&self, request: &RingRequest) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_RX_RING";
        let frame_nr = request.frames().ok_or_else(|| self.error(CALL, libc::EINVAL))?;
        let raw = TpacketReq3 {
            block_size: request.block_size,
            block_nr: request.block_count,
            frame_size: request.frame_size,
            frame_nr,
            retire_blk_tov: request.retire_ms,
            sizeof_priv: 0,
            feature_req_word: if request.fill_rxhash { TP_FT_REQ_FILL_RXHASH } else { 0 },
        };
        self.set(option::RX_RING, &raw, CALL)
    }

    /// Makes the RX ring of frames of equal size; the version must be 2. Otherwise as
    /// [`PacketSocket::set_rx_ring`].
    ///
    /// # Errors
    /// As there.
    pub fn set_rx_slots(&self, request: &SlotRingRequest) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_RX_RING";
        let frame_nr = request.frames().ok_or_else(|| self.error(CALL, libc::EINVAL))?;
        let SlotRingRequest { block_size, block_count: block_nr, frame_size } = *request;
        self.set(option::RX_RING, &TpacketReq { block_size, block_nr, frame_size, frame_nr }, CALL)
    }

    /// Reserves `bytes` more before each packet of an RX ring that is made after this.
    ///
    /// # Errors
    /// `EBUSY` when the socket already has a ring.
    pub fn set_reserve(&self, bytes: u32) -> Result<()> {
        self.set(option::RESERVE, &bytes, "setsockopt PACKET_RESERVE")
    }

    /// Queues packets that are longer than a frame of an RX ring of version 2 on the socket,
    /// untruncated, for [`PacketSocket::try_receive`]. Their frames have
    /// [`TP_STATUS_COPY`](super::TP_STATUS_COPY), and are in the same order.
    ///
    /// # Errors
    /// The errors of setsockopt(2).
    pub fn queue_long_packets(&self) -> Result<()> {
        // Any value except 0 (`tpacket_rcv`).
        self.set(option::COPY_THRESH, &1, "setsockopt PACKET_COPY_THRESH")
    }

    /// Makes the TX ring. Its version must equal the version of the RX ring if there is one.
    ///
    /// Prefer [`Version::V2`] on a separate socket: it exists since Linux 2.6.31, and version 3 has
    /// the same transmit behaviour (frames of one size; 4.11 and later, 16 bytes more header,
    /// `next_offset` must be 0). [`Version::V3`] is for a single socket that also has a version 3
    /// RX ring. A socket that only transmits stays at protocol 0: give 0 to [`PacketSocket::bind`],
    /// and the kernel does no receive work for it.
    ///
    /// # Errors
    /// `EBUSY` when the socket has a ring of the other version, `EINVAL` for sizes that the kernel
    /// refuses, `ENOMEM`.
    pub fn set_tx_ring(&self, version: Version, request: &SlotRingRequest) -> Result<()> {
        const CALL: &str = "setsockopt PACKET_TX_RING";
        if self.version()? != Some(version) {
            self.set_version(version)?;
        }
        let frame_nr = request.frames().ok_or_else(|| self.error(CALL, libc::EINVAL))?;
        let SlotRingRequest { block_size, block_count: block_nr, frame_size } = *request;
        match version {
            Version::V2 => {
                let raw = TpacketReq { block_size, block_nr, frame_size, frame_nr };
                self.set(option::TX_RING, &raw, CALL)
            }
            Version::V3 => {
                let raw = TpacketReq3 {
                    block_size,
                    block_nr,
                    frame_size,
                    frame_nr,
                    ..TpacketReq3::default()
                };
                self.set(option::TX_RING, &raw, CALL)
            }
        }
    }

    /// Maps the rings: the RX ring first, the TX ring right after it; `len` is the sum of both. The
    /// mapping may outlive the socket; the kernel does not access it after the socket is closed.
    ///
    /// # Errors
    /// `EINVAL` when `len` is not that sum.
    pub fn map(&self, len: usize) -> Result<Mapping> {
        Mapping::of_fd(self.as_fd(), len, 0, true)
    }
}

// SAFETY: any bits are a number.
unsafe impl Plain for u32 {}
// SAFETY: u32 fields only; no padding and no invalid patterns.
unsafe impl Plain for TpacketReq {}
// SAFETY: as above.
unsafe impl Plain for TpacketReq3 {}
