//! VLAN tags: IEEE 802.1Q customer tags and IEEE 802.1ad service tags.
//!
//! A tag follows an EtherType for which [`EtherType::is_vlan`] holds: two bytes of control
//! information and the EtherType of the payload, which may be another tag.

use crate::error::WireError;
use crate::ethernet::EtherType;
use crate::field::{put, split, split_mut};
use crate::header::{accessors, header};

/// Length of a tag in bytes.
pub const LEN: usize = 4;

header! {
    /// A checked view of a VLAN tag and its payload.
    view VlanView(LEN) {
        /// The bytes after the tag.
        pub payload,
    }

    /// The value of a VLAN tag.
    value Vlan {
        /// The priority code point, 0 to 7.
        priority: u8,
        /// Whether the frame may be dropped first.
        drop_eligible: bool,
        /// The VLAN identifier, 0 to 4095; 0 for a tag with only a priority.
        id: u16,
        /// The type of the payload.
        ethertype: EtherType = 2,
    }
}

impl<'a> VlanView<'a> {
    /// Takes the bytes that follow the EtherType which announced the tag.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`LEN`] bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = split(bytes)?;
        Ok(Self { header, payload })
    }

    accessors! { LEN {
        /// The whole tag control information, as the kernel passes it beside a frame.
        control: u16 = 0,
    } }

    /// The priority code point, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.header[0] >> 5
    }

    /// Whether the frame may be dropped first.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.header[0] & 0x10 != 0
    }

    /// The VLAN identifier, 0 to 4095; 0 for a tag with only a priority.
    #[inline]
    pub fn id(&self) -> u16 {
        self.control() & 0x0fff
    }
}

impl Vlan {
    /// The whole tag control information.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for a priority above 7 or an identifier above 4095.
    #[inline]
    pub fn control(&self) -> Result<u16, WireError> {
        if self.priority > 7 {
            return Err(WireError::Malformed("VLAN priority above 7"));
        }
        if self.id > 0x0fff {
            return Err(WireError::Malformed("VLAN identifier above 4095"));
        }
        Ok(u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.id)
    }

    /// Writes the tag to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`LEN`], and the errors of
    /// [`control`](Self::control).
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let control = self.control()?;
        let (header, _) = split_mut::<LEN>(buffer)?;
        put::<0, 2, LEN>(header, control.to_be_bytes());
        self.put_fields(header);
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;

    const BYTES: [u8; 6] = [0xb0, 0x64, 0x86, 0xdd, 0x60, 0x00];
    const VALUE: Vlan =
        Vlan { priority: 5, drop_eligible: true, id: 100, ethertype: EtherType::IPV6 };

    #[test]
    fn deconstruct() {
        let view = VlanView::new(&BYTES).unwrap();
        assert_eq!(view.control(), 0xb064);
        assert_eq!(view.priority(), 5);
        assert!(view.drop_eligible());
        assert_eq!(view.id(), 100);
        assert_eq!(view.ethertype(), EtherType::IPV6);
        assert_eq!(view.payload(), [0x60, 0x00]);
    }

    tests! { Vlan, VlanView, LEN }

    #[test]
    fn out_of_range() {
        for wrong in [Vlan { priority: 8, ..VALUE }, Vlan { id: 4096, ..VALUE }] {
            assert!(wrong.emit(&mut [0; LEN]).is_err());
        }
    }
}
