//! A program for the kernel's socket filter, where some things are not what the program means.
//!
//! | the program means | the kernel's socket filter | so before it |
//! |---|---|---|
//! | a shift by 32 or more gives 0 | takes the count modulo 32 | X is looked at |
//! | X + k does not wrap | wraps, and means other headers when negative (`SKF_NET_OFF`) | X is looked at |
//! | a VLAN tag is in the bytes | the outer tag was taken out (`skb_vlan_untag`) | see below |
//!
//! When a packet had a tag, every offset from 12 on is off by 4 and the tag itself is in ancillary
//! fields. libpcap has a special case for this in the code it makes of the word `vlan`, which leaves
//! the offsets of everything that does not say `vlan` where the kernel has them. Here the whole
//! program is written twice, and the second copy, for packets whose tag was taken out, reads the
//! packet as it was on the wire. So an expression selects the same packets from a socket as from the
//! file that they were captured to.
//!
//! A program that asks for the tag itself (`tcpdump -ddd` writes such ones for an interface) knows
//! what the kernel does, and is left alone.

use crate::check::MAX_INSTRUCTIONS;
use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::op::{Alu, Ancillary, Cond, MEMORY_CELLS, Op, Operand, Width};
use crate::packet::VISIBLE;
use crate::program::Program;
use wirelane_os::packet::SockFilter;

impl Program {
    /// Instructions for `SO_ATTACH_FILTER` on a packet socket, which accept at most `snaplen` bytes.
    /// They do not rely on what is in the registers at first.
    ///
    /// # Errors
    /// A usage error: they are too many, or need a cell of scratch memory and the program uses all.
    pub fn for_socket(&self, snaplen: u32) -> Result<Vec<SockFilter>> {
        let mut writer = Writer::new(self, snaplen);
        if writer.concerns_tags() {
            let untagged = writer.label();
            writer.push(Op::LoadAncillary(Ancillary::VlanPresent));
            let tagged = writer.label();
            writer.branch(Cond::Equal, 0, untagged, tagged);
            writer.place(tagged);
            writer.copy(Tag::TakenOut)?;
            writer.place(untagged);
        }
        writer.copy(Tag::InPlace)?;
        let reject = writer.reject;
        writer.place(reject);
        writer.push(Op::Return(0));
        writer.finish()
    }

    /// The instructions as they stand, for packets as the kernel has them, which accept at most
    /// `snaplen` bytes where the program names a number. They do not rely on what is in A at first.
    pub fn verbatim(&self, snaplen: u32) -> Vec<SockFilter> {
        let clears =
            matches!(self.ops().first(), Some(Op::LoadAbsolute(..) | Op::LoadImmediate(_)));
        let clear = (!clears).then(|| Op::LoadImmediate(0).encode());
        let cut = |op: &Op| match *op {
            Op::Return(k) => Op::Return(k.min(snaplen)).encode(),
            op => op.encode(),
        };
        clear.into_iter().chain(self.ops().iter().map(cut)).collect()
    }
}

/// `LINKTYPE_ETHERNET`.
const ETHERNET: u16 = 1;
/// Where a tag begins in an Ethernet frame, and where what follows it does.
const TAG: u32 = 12;
const BEHIND_TAG: u32 = 16;
const TAG_LEN: u32 = 4;

/// Where the outer VLAN tag of the packet is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    InPlace,
    TakenOut,
}

/// A place in what is written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Label(usize);

enum Item {
    Op(Op),
    Jump(Label),
    Branch { cond: Cond, operand: Operand, yes: Label, no: Label },
}

struct Writer<'a> {
    program: &'a Program,
    facts: Facts,
    snaplen: u32,
    items: Vec<Item>,
    /// By label, the item that it stands before.
    places: Vec<usize>,
    reject: Label,
    /// Cells of scratch memory that the program does not use.
    spare: Vec<u32>,
}

impl<'a> Writer<'a> {
    fn new(program: &'a Program, snaplen: u32) -> Self {
        let uses = |cell: u32| {
            program.ops().iter().any(|op| match *op {
                Op::Store(c) | Op::StoreX(c) | Op::LoadMemory(c) | Op::LoadXMemory(c) => c == cell,
                _ => false,
            })
        };
        Self {
            program,
            facts: Facts::gather(program.ops(), VISIBLE),
            snaplen,
            items: Vec::new(),
            places: vec![usize::MAX],
            reject: Label(0),
            spare: (0..MEMORY_CELLS).filter(|cell| !uses(*cell)).collect(),
        }
    }

    /// Whether it matters to the program that the kernel takes tags out.
    fn concerns_tags(&self) -> bool {
        let knows = [Ancillary::VlanPresent, Ancillary::VlanTci, Ancillary::VlanTpid];
        let fields = self.program.ancillary();
        self.program.link_type() == ETHERNET
            && !knows.iter().any(|field| fields.contains(field))
            && self.program.ops().iter().any(|op| match *op {
                Op::LoadAbsolute(width, k) => k.saturating_add(width.bytes()) > TAG,
                Op::LoadXHeader(k) => k >= TAG,
                Op::LoadIndirect(..) | Op::LoadLength | Op::LoadXLength => true,
                Op::LoadAncillary(field) => field == Ancillary::Protocol,
                _ => false,
            })
    }

    fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    fn place(&mut self, label: Label) {
        if let Some(place) = self.places.get_mut(label.0) {
            *place = self.items.len();
        }
    }

    fn push(&mut self, op: Op) {
        self.items.push(Item::Op(op));
    }

    fn branch(&mut self, cond: Cond, k: u32, yes: Label, no: Label) {
        self.items.push(Item::Branch { cond, operand: Operand::K(k), yes, no });
    }

    /// Goes to `yes` if A compares so with `k`, otherwise on.
    fn leave_if(&mut self, cond: Cond, k: u32, yes: Label) {
        let on = self.label();
        self.branch(cond, k, yes, on);
        self.place(on);
    }

    /// A cell to keep something in for the time of one instruction.
    fn cell(&self) -> Result<u32> {
        self.spare.first().copied().ok_or_else(|| {
            let cause = format!("it uses all {MEMORY_CELLS} cells of scratch memory");
            Error::invalid("filter", cause)
                .help("the kernel needs one of them for the packet's metadata; use one less")
        })
    }

    /// Writes the whole program.
    fn copy(&mut self, tag: Tag) -> Result<()> {
        let ops = self.program.ops();
        let labels: Vec<_> = ops.iter().map(|_| self.label()).collect();
        let target = |at: usize, skip: usize| labels.get(at + 1 + skip).copied();
        // A is 0 at first, and was used before.
        if !ops.first().is_some_and(|op| matches!(op, Op::LoadAbsolute(..) | Op::LoadImmediate(_)))
        {
            self.push(Op::LoadImmediate(0));
        }
        for (at, (op, label)) in ops.iter().zip(&labels).enumerate() {
            self.place(*label);
            match *op {
                Op::Jump(skip) => {
                    let label = target(at, skip as usize).unwrap_or(self.reject);
                    self.items.push(Item::Jump(label));
                }
                Op::Branch { cond, operand, jt, jf } => {
                    let yes = target(at, jt.into()).unwrap_or(self.reject);
                    let no = target(at, jf.into()).unwrap_or(self.reject);
                    self.items.push(Item::Branch { cond, operand, yes, no });
                }
                op => {
                    let x_most = self.facts.x_most(at);
                    self.operation(op, tag, x_most)?;
                }
            }
        }
        Ok(())
    }

    fn operation(&mut self, op: Op, tag: Tag, x_most: u32) -> Result<()> {
        let taken_out = tag == Tag::TakenOut;
        match op {
            Op::LoadAbsolute(width, k) => return self.load(width, k, tag),
            Op::LoadIndirect(width, k) => return self.load_indirect(width, k, tag, x_most),
            Op::LoadXHeader(k) if k > VISIBLE => self.push(Op::Return(0)),
            Op::LoadXHeader(k) if taken_out && k >= BEHIND_TAG => {
                self.push(Op::LoadXHeader(k - TAG_LEN));
            }
            Op::LoadXHeader(k) if taken_out && k >= TAG => {
                let a = self.cell()?;
                self.push(Op::Store(a));
                self.load(Width::Byte, k, tag)?;
                self.push(Op::Alu(Alu::And, Operand::K(0xf)));
                self.push(Op::Alu(Alu::Shl, Operand::K(2)));
                self.push(Op::Tax);
                self.push(Op::LoadMemory(a));
            }
            Op::LoadLength if taken_out => {
                self.push(op);
                self.push(Op::Alu(Alu::Add, Operand::K(TAG_LEN)));
            }
            Op::LoadXLength if taken_out => {
                let a = self.cell()?;
                self.push(Op::Store(a));
                self.push(Op::LoadLength);
                self.push(Op::Alu(Alu::Add, Operand::K(TAG_LEN)));
                self.push(Op::Tax);
                self.push(Op::LoadMemory(a));
            }
            Op::LoadAncillary(Ancillary::Protocol) if taken_out => {
                self.push(Op::LoadAncillary(Ancillary::VlanTpid));
            }
            Op::Alu(Alu::Shl | Alu::Shr, Operand::X) if x_most >= 32 => {
                let (a, far, done) = (self.cell()?, self.label(), self.label());
                self.push(Op::Store(a));
                self.push(Op::Txa);
                self.leave_if(Cond::GreaterEqual, 32, far);
                self.push(Op::LoadMemory(a));
                self.push(op);
                self.items.push(Item::Jump(done));
                self.place(far);
                self.push(Op::LoadImmediate(0));
                self.place(done);
            }
            Op::Return(k) => self.push(Op::Return(k.min(self.snaplen))),
            Op::ReturnA if self.snaplen < u32::MAX => {
                let more = self.label();
                self.leave_if(Cond::Greater, self.snaplen, more);
                self.push(Op::ReturnA);
                self.place(more);
                self.push(Op::Return(self.snaplen));
            }
            op => self.push(op),
        }
        Ok(())
    }

    /// A = what was on the wire at `k`.
    fn load(&mut self, width: Width, k: u32, tag: Tag) -> Result<()> {
        let end = k.saturating_add(width.bytes());
        if end > VISIBLE {
            self.push(Op::Return(0));
        } else if tag == Tag::InPlace || end <= TAG {
            self.push(Op::LoadAbsolute(width, k));
        } else if k >= BEHIND_TAG {
            self.push(Op::LoadAbsolute(width, k - TAG_LEN));
        } else {
            return self.compose(k, end);
        }
        Ok(())
    }

    /// A = the bytes from `k` to `end`, some of which were in the tag.
    fn compose(&mut self, k: u32, end: u32) -> Result<()> {
        let mut pieces = Vec::new();
        let mut at = k;
        while at < end {
            let rest = end - at;
            let (ops, len) = match at {
                12 | 14 => {
                    let field = if at == 12 { Ancillary::VlanTpid } else { Ancillary::VlanTci };
                    let field = Op::LoadAncillary(field);
                    match rest {
                        1 => (vec![field, Op::Alu(Alu::Shr, Operand::K(8))], 1),
                        _ => (vec![field], 2),
                    }
                }
                13 | 15 => {
                    let field = if at == 13 { Ancillary::VlanTpid } else { Ancillary::VlanTci };
                    (vec![Op::LoadAncillary(field), Op::Alu(Alu::And, Operand::K(0xff))], 1)
                }
                _ => {
                    let (offset, rest) =
                        if at < TAG { (at, rest.min(TAG - at)) } else { (at - TAG_LEN, rest) };
                    let width = if rest >= 2 { Width::Half } else { Width::Byte };
                    (vec![Op::LoadAbsolute(width, offset)], width.bytes())
                }
            };
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

    /// A = what was on the wire at X + `k`.
    fn load_indirect(&mut self, width: Width, k: u32, tag: Tag, x_most: u32) -> Result<()> {
        let Some(most) = VISIBLE.checked_sub(k.saturating_add(width.bytes())) else {
            self.push(Op::Return(0));
            return Ok(());
        };
        let shifted = tag == Tag::TakenOut;
        // A is about to be overwritten, so it can serve to look at X.
        if x_most > most || shifted && k < BEHIND_TAG {
            self.push(Op::Txa);
        }
        if x_most > most {
            self.leave_if(Cond::Greater, most, self.reject);
        }
        if !shifted || k >= BEHIND_TAG {
            let k = if shifted { k - TAG_LEN } else { k };
            self.push(Op::LoadIndirect(width, k));
            return Ok(());
        }
        let (behind, done) = (self.label(), self.label());
        self.leave_if(Cond::GreaterEqual, BEHIND_TAG - k, behind);
        // The offsets at which a load has to do with the tag.
        let first = k.max(TAG + 1 - width.bytes());
        for offset in first..BEHIND_TAG {
            let (here, next) = (self.label(), self.label());
            self.branch(Cond::Equal, offset - k, here, next);
            self.place(here);
            self.compose(offset, offset + width.bytes())?;
            self.items.push(Item::Jump(done));
            self.place(next);
        }
        self.push(Op::LoadIndirect(width, k));
        self.items.push(Item::Jump(done));
        self.place(behind);
        // Below 0 for k < 4, and with X at least 16 - k not below 12 in sum.
        self.push(Op::LoadIndirect(width, k.wrapping_sub(TAG_LEN)));
        self.place(done);
        Ok(())
    }

    /// Fills in the distances. A conditional jump reaches 255 instructions; where that is not
    /// enough, unconditional ones follow it.
    fn finish(self) -> Result<Vec<SockFilter>> {
        const REACH: usize = u8::MAX as usize;
        // By item, whether its two jumps are long. Long ones only become more, so this ends.
        let mut long = vec![(false, false); self.items.len()];
        let starts = loop {
            let mut starts = Vec::with_capacity(self.items.len() + 1);
            let mut len = 0;
            for (yes, no) in &long {
                starts.push(len);
                len += 1 + usize::from(*yes) + usize::from(*no);
            }
            starts.push(len);
            let place = |label: Label| self.places.get(label.0).and_then(|at| starts.get(*at));
            let mut grew = false;
            for (at, item) in self.items.iter().enumerate() {
                if let Item::Branch { yes, no, .. } = item {
                    let far = |label| place(label).is_none_or(|to| to - starts[at] > REACH);
                    let now = (long[at].0 || far(*yes), long[at].1 || far(*no));
                    grew |= now != long[at];
                    long[at] = now;
                }
            }
            if !grew {
                break starts;
            }
        };
        let len = starts.last().copied().unwrap_or(0);
        if len > MAX_INSTRUCTIONS {
            let cause = format!(
                "as a socket filter it has {len} instructions; the kernel accepts {MAX_INSTRUCTIONS}"
            );
            return Err(Error::invalid("filter", cause).help("write a shorter expression"));
        }
        let place = |label: Label| {
            self.places.get(label.0).and_then(|at| starts.get(*at)).copied().unwrap_or(len)
        };
        let skip = |from: usize, label: Label| (place(label) - from - 1) as u32;
        let mut program = Vec::with_capacity(len);
        for (item, (yes_long, no_long)) in self.items.iter().zip(&long) {
            let at = program.len();
            match item {
                Item::Op(op) => program.push(op.encode()),
                Item::Jump(label) => program.push(Op::Jump(skip(at, *label)).encode()),
                Item::Branch { cond, operand, yes, no } => {
                    let second = at + 1 + usize::from(*yes_long);
                    let jt = if *yes_long { 0 } else { skip(at, *yes) as u8 };
                    let jf = if *no_long { u8::from(*yes_long) } else { skip(at, *no) as u8 };
                    let (cond, operand) = (*cond, *operand);
                    program.push(Op::Branch { cond, operand, jt, jf }.encode());
                    if *yes_long {
                        program.push(Op::Jump(skip(at + 1, *yes)).encode());
                    }
                    if *no_long {
                        program.push(Op::Jump(skip(second, *no)).encode());
                    }
                }
            }
        }
        Ok(program)
    }
}
