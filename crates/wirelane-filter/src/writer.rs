//! Rewrites a program for packets in another form.
//!
//! | the program means | the kernel's socket filter | so the writer adds |
//! |---|---|---|
//! | a shift by 32 or more gives 0 | takes the count modulo 32 | a check of X |
//! | X + k does not wrap | wraps; negative: other headers (`SKF_NET_OFF`) | a check of X |
//!
//! If the outer VLAN tag is elsewhere than the program expects ([`TagPlace`]), later offsets move
//! by 4, lengths change by 4, and loads of the tag read its actual place.

use crate::error::{Error, Result};
use crate::facts::InstructionFacts;
use crate::items::{ItemLabel, Items, ProgramItem};
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};
use crate::packet::{MIN_ETHERTYPE, VISIBLE};
use crate::program::Program;
use crate::question::{self, TagTest};
use crate::tag::{TAG_LEN, TagPlace};

/// The engine that runs the rewritten program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RewriteTarget {
    /// The kernel's socket filter, which accepts at most `snaplen` bytes.
    Socket {
        /// The limit in bytes.
        snaplen: u32,
    },
    /// An engine of this crate, on bytes.
    Bytes,
}

pub(crate) struct ProgramRewriter<'a> {
    program: &'a Program,
    facts: InstructionFacts,
    target: RewriteTarget,
    /// The offset of a tag in a packet of the program's link type.
    tag_at: u32,
    pub(crate) items: Items,
    reject: ItemLabel,
    /// Cells of scratch memory that the program does not use.
    spare: Vec<u32>,
}

impl<'a> ProgramRewriter<'a> {
    pub(crate) fn new(program: &'a Program, target: RewriteTarget, tag_at: u32) -> Self {
        let uses = |cell: u32| {
            program.ops().iter().any(|op| match *op {
                Op::Store(c) | Op::StoreX(c) | Op::LoadMemory(c) | Op::LoadXMemory(c) => c == cell,
                _ => false,
            })
        };
        let mut items = Items::default();
        Self {
            program,
            facts: InstructionFacts::gather(program.ops(), VISIBLE),
            target,
            tag_at,
            reject: items.label(),
            items,
            spare: (0..MEMORY_CELLS).filter(|cell| !uses(*cell)).collect(),
        }
    }

    /// Appends the common exit that rejects.
    pub(crate) fn finish(mut self) -> Items {
        self.items.place(self.reject);
        self.items.push(Op::Return(0));
        self.items
    }

    fn push(&mut self, op: Op) {
        self.items.push(op);
    }

    /// A spare cell for use within one instruction.
    fn cell(&self) -> Result<u32> {
        self.spare.first().copied().ok_or_else(|| {
            let cause = format!("it uses all {MEMORY_CELLS} cells of scratch memory");
            Error::invalid("filter", cause)
                .help("one of them is needed for what stands beside the packet; use one less")
        })
    }

    /// Writes the program for packets without a tag in the bytes, where `plain` describes their
    /// tag, and for packets with a tag in the bytes.
    pub(crate) fn both(&mut self, plain: TagPlace) -> Result<()> {
        let question = TagTest { tag_at: self.tag_at, plain, in_bytes: self.items.label() };
        let chain = question::chain(self.program.ops(), self.tag_at);
        if chain.is_empty() {
            question.first(&mut self.items);
        }
        self.copy(plain, Some((&question, &chain)))?;
        self.items.place(question.in_bytes);
        self.copy(TagPlace::InPlace, None)
    }

    /// Writes the whole program. Comparisons of a chain include the test for a tag.
    pub(crate) fn copy(
        &mut self,
        tag: TagPlace,
        chain: Option<(&TagTest, &[usize])>,
    ) -> Result<()> {
        let ops = self.program.ops();
        let labels: Vec<_> = ops.iter().map(|_| self.items.label()).collect();
        let target = |at: usize, skip: usize| labels.get(at + 1 + skip).copied();
        // The program relies on the initial A of 0, but A was already used.
        if !ops.first().is_some_and(|op| matches!(op, Op::LoadAbsolute(..) | Op::LoadImmediate(_)))
        {
            self.push(Op::LoadImmediate(0));
        }
        for (at, (op, label)) in ops.iter().zip(&labels).enumerate() {
            self.items.place(*label);
            match *op {
                Op::Jump(skip) => {
                    let label = target(at, skip as usize).unwrap_or(self.reject);
                    self.items.jump(label);
                }
                Op::Branch { cond, operand, jt, jf } => {
                    let yes = target(at, jt.into()).unwrap_or(self.reject);
                    let no = target(at, jf.into()).unwrap_or(self.reject);
                    match (chain, operand) {
                        (Some((question, chain)), Operand::K(k)) if chain.contains(&at) => {
                            let is_last = chain.last() == Some(&at);
                            question.compare(&mut self.items, k, (yes, no), is_last);
                        }
                        _ => self.items.add(ProgramItem::Branch { cond, operand, yes, no }),
                    }
                }
                op => {
                    let x_most = self.facts.x_most(at);
                    self.operation(op, tag, x_most)?;
                }
            }
        }
        Ok(())
    }

    fn operation(&mut self, op: Op, tag: TagPlace, x_most: u32) -> Result<()> {
        match op {
            Op::LoadAbsolute(width, k) => return self.load(width, k, tag),
            Op::LoadIndirect(width, k) => return self.load_indirect(width, k, tag, x_most),
            Op::LoadXHeader(k) => return self.load_header(k, tag),
            Op::LoadLength => {
                self.push(op);
                self.correct_length(tag);
            }
            Op::LoadXLength if matches!(tag, TagPlace::TakenOut | TagPlace::InPlace) => {
                let a = self.cell()?;
                self.push(Op::Store(a));
                self.push(Op::LoadLength);
                self.correct_length(tag);
                self.push(Op::Tax);
                self.push(Op::LoadMemory(a));
            }
            Op::LoadAncillary(field) => self.ancillary(field, tag),
            Op::Alu(Alu::Shl | Alu::Shr, Operand::X)
                if x_most >= 32 && self.target != RewriteTarget::Bytes =>
            {
                let (a, far, done) = (self.cell()?, self.items.label(), self.items.label());
                self.push(Op::Store(a));
                self.push(Op::Txa);
                self.items.leave_if(Cond::GreaterEqual, 32, far);
                self.push(Op::LoadMemory(a));
                self.push(op);
                self.items.jump(done);
                self.items.place(far);
                self.push(Op::LoadImmediate(0));
                self.items.place(done);
            }
            Op::Return(k) => self.push(Op::Return(k.min(self.snaplen()))),
            Op::ReturnA if self.snaplen() < u32::MAX => {
                let (more, snaplen) = (self.items.label(), self.snaplen());
                self.items.leave_if(Cond::Greater, snaplen, more);
                self.push(Op::ReturnA);
                self.items.place(more);
                self.push(Op::Return(snaplen));
            }
            op => self.push(op),
        }
        Ok(())
    }

    fn snaplen(&self) -> u32 {
        match self.target {
            RewriteTarget::Socket { snaplen } => snaplen,
            RewriteTarget::Bytes => u32::MAX,
        }
    }

    /// Converts A from the length of the packet to the length that the program expects.
    fn correct_length(&mut self, tag: TagPlace) {
        match tag {
            TagPlace::TakenOut => self.push(Op::Alu(Alu::Add, Operand::K(TAG_LEN))),
            TagPlace::InPlace => self.push(Op::Alu(Alu::Sub, Operand::K(TAG_LEN))),
            TagPlace::AsMeant | TagPlace::Absent => {}
        }
    }

    fn ancillary(&mut self, field: Ancillary, tag: TagPlace) {
        use Ancillary::{Protocol, VlanPresent, VlanTci, VlanTpid};
        let half = |offset| Op::LoadAbsolute(Width::Half, offset);
        match (field, tag) {
            (Protocol, TagPlace::TakenOut) => self.push(Op::LoadAncillary(VlanTpid)),
            (VlanPresent | VlanTci | VlanTpid, TagPlace::Absent) => self.push(Op::LoadImmediate(0)),
            (VlanPresent, TagPlace::InPlace) => self.push(Op::LoadImmediate(1)),
            (VlanTpid, TagPlace::InPlace) => self.push(half(self.tag_at)),
            (VlanTci, TagPlace::InPlace) => self.push(half(self.tag_at + 2)),
            // As `vlan_set_encap_proto` computes it from the bytes after the tag.
            (Protocol, TagPlace::InPlace) => {
                let (done, known) = (self.items.label(), self.items.label());
                let (raw, llc) = (self.items.label(), self.items.label());
                self.push(half(self.tag_at + TAG_LEN));
                self.items.leave_if(Cond::GreaterEqual, MIN_ETHERTYPE, known);
                self.push(half(self.tag_at + TAG_LEN + 2));
                self.items.branch(Cond::Equal, 0xffff, raw, llc);
                self.items.place(raw);
                self.push(Op::LoadImmediate(1));
                self.items.jump(done);
                self.items.place(llc);
                self.push(Op::LoadImmediate(4));
                self.items.place(known);
                self.items.place(done);
            }
            _ => self.push(Op::LoadAncillary(field)),
        }
    }

    /// X = 4 times the lower half of the byte that the program expects at `k`.
    fn load_header(&mut self, k: u32, tag: TagPlace) -> Result<()> {
        if k > VISIBLE {
            self.push(Op::Return(0));
            return Ok(());
        }
        match self.place_of(k, 1, tag) {
            Some(offset) => self.push(Op::LoadXHeader(offset)),
            None => {
                let a = self.cell()?;
                self.push(Op::Store(a));
                self.load(Width::Byte, k, tag)?;
                self.push(Op::Alu(Alu::And, Operand::K(0xf)));
                self.push(Op::Alu(Alu::Shl, Operand::K(2)));
                self.push(Op::Tax);
                self.push(Op::LoadMemory(a));
            }
        }
        Ok(())
    }

    /// The offset in the packet of the `len` bytes that the program expects at `k`; `None` if they
    /// are not contiguous.
    fn place_of(&self, k: u32, len: u32, tag: TagPlace) -> Option<u32> {
        let end = k.saturating_add(len);
        match tag {
            TagPlace::AsMeant | TagPlace::Absent => Some(k),
            _ if end <= self.tag_at => Some(k),
            TagPlace::InPlace => (k >= self.tag_at).then(|| k.saturating_add(TAG_LEN)),
            TagPlace::TakenOut => (k >= self.tag_at + TAG_LEN).then(|| k - TAG_LEN),
        }
    }

    /// A = the bytes that the program expects at `k`.
    fn load(&mut self, width: Width, k: u32, tag: TagPlace) -> Result<()> {
        let end = k.saturating_add(width.bytes());
        if end > VISIBLE {
            self.push(Op::Return(0));
            return Ok(());
        }
        match self.place_of(k, width.bytes(), tag) {
            Some(offset) if offset.saturating_add(width.bytes()) > VISIBLE => {
                self.push(Op::Return(0));
            }
            Some(offset) => self.push(Op::LoadAbsolute(width, offset)),
            None => return self.compose(k, end, tag),
        }
        Ok(())
    }

    /// A = the bytes that the program expects from `k` to `end`, in pieces that end at the
    /// boundaries of the tag.
    fn compose(&mut self, k: u32, end: u32, tag: TagPlace) -> Result<()> {
        let mut pieces = Vec::new();
        let mut at = k;
        while at < end {
            let (ops, len) = self.piece(at, end - at, tag);
            pieces.push((ops, len));
            at += len;
        }
        let x = if pieces.len() > 1 { Some(self.cell()?) } else { None };
        if let Some(x) = x {
            self.push(Op::StoreX(x));
        }
        for (position, (ops, len)) in pieces.into_iter().enumerate() {
            if position > 0 {
                self.push(Op::Alu(Alu::Shl, Operand::K(8 * len)));
                self.push(Op::Tax);
            }
            ops.into_iter().for_each(|op| self.push(op));
            if position > 0 {
                self.push(Op::Alu(Alu::Or, Operand::X));
            }
        }
        if let Some(x) = x {
            self.push(Op::LoadXMemory(x));
        }
        Ok(())
    }

    /// Operations that load the next of `rest` bytes that the program expects at `at`, and the
    /// number of bytes that they load.
    fn piece(&self, at: u32, rest: u32, tag: TagPlace) -> (Vec<Op>, u32) {
        let inside = at.checked_sub(self.tag_at).filter(|inside| *inside < TAG_LEN);
        if let (TagPlace::TakenOut, Some(inside)) = (tag, inside) {
            let field = if inside < 2 { Ancillary::VlanTpid } else { Ancillary::VlanTci };
            let field = Op::LoadAncillary(field);
            return match (inside % 2, rest) {
                (0, 1) => (vec![field, Op::Alu(Alu::Shr, Operand::K(8))], 1),
                (0, _) => (vec![field], 2),
                _ => (vec![field, Op::Alu(Alu::And, Operand::K(0xff))], 1),
            };
        }
        let rest = if at < self.tag_at { rest.min(self.tag_at - at) } else { rest };
        let width = if rest >= 2 { Width::Half } else { Width::Byte };
        let offset = self.place_of(at, width.bytes(), tag).unwrap_or(at);
        (vec![Op::LoadAbsolute(width, offset)], width.bytes())
    }

    /// A = the bytes that the program expects at X + `k`.
    fn load_indirect(&mut self, width: Width, k: u32, tag: TagPlace, x_most: u32) -> Result<()> {
        // The offset to add to X behind the tag.
        let (border, behind_k) = match tag {
            TagPlace::AsMeant | TagPlace::Absent => (0, k),
            TagPlace::InPlace => (self.tag_at, k.saturating_add(TAG_LEN)),
            // Negative for k < 4, but used only for X + k of at least `border`: the sum is
            // positive.
            TagPlace::TakenOut => (self.tag_at + TAG_LEN, k.wrapping_sub(TAG_LEN)),
        };
        let last = k.max(if tag == TagPlace::InPlace { behind_k } else { k });
        let Some(most) = VISIBLE.checked_sub(last.saturating_add(width.bytes())) else {
            self.push(Op::Return(0));
            return Ok(());
        };
        let is_split = k < border;
        let is_checked = x_most > most && self.target != RewriteTarget::Bytes;
        // A is about to be overwritten, so it can hold X for the check.
        if is_checked || is_split {
            self.push(Op::Txa);
        }
        // The sum must not wrap in the part that is checked here.
        if is_checked || is_split && x_most > most {
            let reject = self.reject;
            self.items.leave_if(Cond::Greater, most, reject);
        }
        if !is_split {
            self.push(Op::LoadIndirect(width, behind_k));
            return Ok(());
        }
        let (behind, done) = (self.items.label(), self.items.label());
        self.items.leave_if(Cond::GreaterEqual, border - k, behind);
        // The offsets at which a load overlaps the tag.
        let first = k.max(self.tag_at + 1 - width.bytes());
        let crossing = first..border;
        for offset in crossing {
            let (here, next) = (self.items.label(), self.items.label());
            self.items.branch(Cond::Equal, offset - k, here, next);
            self.items.place(here);
            self.compose(offset, offset + width.bytes(), tag)?;
            self.items.jump(done);
            self.items.place(next);
        }
        self.push(Op::LoadIndirect(width, k));
        self.items.jump(done);
        self.items.place(behind);
        self.push(Op::LoadIndirect(width, behind_k));
        self.items.place(done);
        Ok(())
    }
}
