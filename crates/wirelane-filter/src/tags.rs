//! Converts a program from the kernel's view of packets to their bytes.
//!
//! ```text
//!  on an interface   addresses │ type │ data     and, beside it, the outer tag (`skb_vlan_untag`)
//!  in bytes          addresses │ tag │ type │ data
//! ```
//!
//! The result contains the program twice: for packets without a tag, and with adjusted offsets and
//! lengths for packets with a tag. So an expression selects the same packets from a file as from
//! the captured interface.
//!
//! The test for a tag is as late as possible. Most programs begin with comparisons of the type
//! (`ldh [12]; jeq #0x800`). A comparison that is true proves that there is no tag, so only the
//! last false comparison leads to the test. Other programs begin with the test.

use crate::check::MAX_INSTRUCTIONS;
use crate::error::{Error, Result};
use crate::fold;
use crate::op::{Ancillary, Op};
use crate::program::Program;
use crate::tag::{self, TagPlace};
use crate::writer::{ProgramRewriter, RewriteTarget};

impl Program {
    /// Converts a program for packets in the view of the kernel's socket filter, where the outer
    /// VLAN tag is in ancillary fields instead of the bytes, to a program for the bytes of packets.
    ///
    /// The result keeps the original program ([`Program::of_kernel`]).
    ///
    /// # Errors
    /// A usage error: the program is too long, or needs a cell of scratch memory and uses all
    /// cells.
    pub fn for_bytes(&self) -> Result<Self> {
        let Some(tag_at) =
            tag::position(self.link_type()).filter(|tag_at| concerns_tags(self, *tag_at))
        else {
            return Ok(self.clone().made_of(self));
        };
        let mut writer = ProgramRewriter::new(self, RewriteTarget::Bytes, tag_at);
        writer.both(TagPlace::Absent)?;
        let mut items = writer.finish();
        fold::fold(&mut items);
        let instructions = items.finish();
        if instructions.len() > LONGEST {
            let cause = format!(
                "with VLAN tags it has {} instructions, and the limit is {LONGEST}",
                instructions.len()
            );
            return Err(Error::invalid("filter", cause).help("write a shorter expression"));
        }
        Ok(Self::written(self.link_type(), instructions)?.made_of(self))
    }
}

/// The most instructions that engines accept.
const LONGEST: usize = 4 * MAX_INSTRUCTIONS;

/// Whether the program depends on the tag being in the bytes instead of beside the packet.
pub(crate) fn concerns_tags(program: &Program, tag_at: u32) -> bool {
    program.ops().iter().any(|op| match *op {
        Op::LoadAbsolute(width, k) => k.saturating_add(width.bytes()) > tag_at,
        Op::LoadXHeader(k) => k >= tag_at,
        Op::LoadIndirect(..) | Op::LoadLength | Op::LoadXLength => true,
        Op::LoadAncillary(field) => {
            use Ancillary::{Protocol, VlanPresent, VlanTci, VlanTpid};
            matches!(field, Protocol | VlanPresent | VlanTci | VlanTpid)
        }
        _ => false,
    })
}
