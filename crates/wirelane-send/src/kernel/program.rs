//! The program that writes and sends the packets of a stream.
//!
//! ```text
//!   wait until due ─▶ number, counter ─▶ length ─▶ headers ─▶ fields
//!                                           ─▶ checksums ─▶ signature ─▶ redirect
//! ```
//!
//! The kernel recycles pages of its pool with the bytes that the program and the receiver left in
//! them. So the program rewrites the head of each packet, including headers that a receiver
//! changed.

use wirelane_gen::ThreadShare;
use wirelane_gen::signature::{self, SignatureKey};
use wirelane_gen::stream::Stream;
use wirelane_gen::template::{Checksum, Template};
use wirelane_os::OsError;
use wirelane_os::bpf::{
    Alu, Assembler, Cond, Insn, Label, Load, Map, MapKind, Program, ProgramType, Reg, Size,
    XdpAction,
};

use super::code::{
    CONTEXT, FRAME, KTIME_GET_NS, NUMBER, REDIRECT, STATE, XDP_ADJUST_TAIL, XDP_STORE_BYTES,
    constant, fold, look_up, reach, store_bytes, store_number,
};
use super::field::{FieldComputation, FieldError};
use super::limits::MAX_HEAD;
use super::refusal::KernelRefusal;

/// How many bytes of a constant head are rewritten: the length of common header stacks.
const USUAL_HEAD: usize = 128;
/// The most clock readings while waiting for a packet's time, about 25 ns each.
const SPINS: i32 = 4000;
/// Departure errors below 262 µs are counted in steps of 64 ns.
const FINE_SHIFT: i32 = 6;
/// Larger errors are counted in steps of 262 µs; the last step includes all errors above 1.07 s.
const COARSE_SHIFT: i32 = 18;
/// The number of steps of each kind.
const STEPS: usize = 4096;
/// Fractional bits of the interval between two packets.
pub(super) const INTERVAL_SHIFT: i32 = 20;

// The layout of the state: the number of frames; with a schedule also the last departure, the
// largest error, and the histogram of errors.
const COUNT: i16 = 0;
const LAST: i16 = 8;
const LATEST: i16 = 16;
const LATENESS: i16 = 24;
/// Bytes of the state, with and without a schedule.
const PACED_BYTES: usize = LATENESS as usize + 16 * STEPS;
const PLAIN_BYTES: usize = 8;

// Stack offsets. The key of a look-up is at -4.
const NOW: i16 = -16;
const LENGTH: i16 = -24;
const DUE: i16 = -32;
const SUMS: i16 = -40;

/// The parameters of a program.
pub(super) struct ProgramParameters<'a> {
    /// The interface to redirect to.
    pub(super) ifindex: u32,
    pub(super) stream: &'a Stream,
    pub(super) lane: ThreadShare,
    /// The signature key and the flow number.
    pub(super) signature: Option<(SignatureKey, u32)>,
    /// Whether each packet waits until it is due.
    pub(super) paced: bool,
}

/// A program, its maps, and the frame that it starts with.
#[derive(Debug)]
pub(super) struct SenderProgram {
    pub(super) program: Program,
    /// A frame of the largest length, with zeros in the changing fields.
    pub(super) frame: Vec<u8>,
    state: Map,
    pace: Option<Map>,
    /// The program reads these maps.
    _tables: Vec<Map>,
    _fields: Vec<FieldComputation>,
}

/// A snapshot of a program's state.
#[derive(Clone, Debug)]
pub(super) struct ProgramState(Vec<u8>);

impl ProgramState {
    /// Frames redirected so far.
    pub(super) fn frames(&self) -> u64 {
        self.word(COUNT as usize)
    }

    /// The last departure, on the monotonic clock.
    pub(super) fn last(&self) -> u64 {
        self.word(LAST as usize)
    }

    /// The largest departure error in nanoseconds.
    pub(super) fn latest(&self) -> u64 {
        self.word(LATEST as usize)
    }

    /// The histogram of departure errors: the middle of each step in nanoseconds, and its number of
    /// packets. An early departure counts like a late one.
    pub(super) fn lateness(&self) -> impl Iterator<Item = (u64, u64)> {
        let middle = |step: usize, shift: i32| ((step as u64) << shift) + (1 << shift) / 2;
        let fine = (0..STEPS).map(move |step| middle(step, FINE_SHIFT));
        let coarse = (0..STEPS).map(move |step| middle(step, COARSE_SHIFT));
        let packets = (0..).map(|step| self.word(LATENESS as usize + 8 * step));
        let latest = self.latest();
        fine.chain(coarse).zip(packets).map(move |(middle, packets)| (middle.min(latest), packets))
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }
}

impl SenderProgram {
    /// Creates the maps, and assembles and loads the program.
    pub(super) fn new(parts: &ProgramParameters<'_>) -> Result<Self, FieldError> {
        let stream = parts.stream;
        let template = &*stream.template;
        let fields =
            template.edits().iter().map(FieldComputation::new).collect::<Result<Vec<_>, _>>()?;
        let head = head_length(template)?;
        let bytes = if parts.paced { PACED_BYTES } else { PLAIN_BYTES };
        let state = Map::create(MapKind::Array, "wl_sent", bytes as u32, 1);
        let state = state.map_err(FieldError::Os)?;
        let pace = parts.paced.then(|| Map::create(MapKind::Array, "wl_pace", 40, 1)).transpose();
        let pace = pace.map_err(FieldError::Os)?;
        let frame = frame(template, stream.lengths.max());
        let sizes = match stream.lengths.fixed() {
            Some(_) => None,
            None => Some(SizeTables::new(stream, &frame).map_err(FieldError::Os)?),
        };
        let writer =
            ProgramAssembler { parts, template, head, fields: &fields, sizes: sizes.as_ref() };
        let insns = writer.assemble(&state, pace.as_ref(), &frame);
        let insns =
            insns.map_err(|error| FieldError::Refused(KernelRefusal::Kernel(error.to_string())))?;
        let program = Program::load(&Load::new(ProgramType::Xdp, "wl_send", &insns))
            .map_err(|error| FieldError::Os(error.into()))?;
        let tables = sizes.map(|sizes| [Some(sizes.lengths), sizes.content]);
        let _tables = tables.into_iter().flatten().flatten().collect();
        Ok(Self { program, frame, state, pace, _tables, _fields: fields })
    }

    /// Reads the current state.
    pub(super) fn state(&self) -> Result<ProgramState, OsError> {
        self.state.lookup(0).map(ProgramState)
    }

    /// Sets the schedule: packet `count` of the lane is due at `base` on the monotonic clock, and
    /// each later packet after `interval`, in units of 2⁻²⁰ nanoseconds. `group` packets, a power
    /// of two, leave together when the first is due: only the first reads the clock. Late groups
    /// leave with at least 7/8 of their normal spacing, so a delay does not cause a larger burst.
    pub(super) fn pace(
        &self,
        base: u64,
        count: u64,
        interval: u64,
        group: u64,
    ) -> Result<(), OsError> {
        let Some(pace) = &self.pace else { return Ok(()) };
        let least = (interval.saturating_mul(group) >> INTERVAL_SHIFT) * 7 / 8;
        pace.update(0, &[base, count, interval, least, group - 1].map(u64::to_ne_bytes).concat())
    }

    /// Sets the number of counted frames.
    #[cfg(test)]
    fn set_count(&self, count: u64) {
        let mut state = self.state.lookup(0).unwrap();
        state[..8].copy_from_slice(&count.to_ne_bytes());
        self.state.update(0, &state).unwrap();
    }
}

/// The tables for packets of different lengths.
struct SizeTables {
    /// For each packet of the cycle: its length, then the constant part of each checksum.
    lengths: Map,
    cycle: u64,
    longest: usize,
    /// The bytes to restore in each packet, if templates reserve room for a signature at the end.
    content: Option<Map>,
}

impl SizeTables {
    fn new(stream: &Stream, frame: &[u8]) -> Result<Self, OsError> {
        let (template, cycle) = (&*stream.template, stream.lengths.cycle());
        let sums = template.checksums().len();
        let bytes = 8 + 8 * sums as u32;
        let lengths = Map::create(MapKind::Array, "wl_lengths", bytes, cycle.len() as u32)?;
        for (index, length) in (0..).zip(cycle) {
            let length = usize::from(*length);
            let sums = template.checksums().iter().map(|sum| total(template, sum, length));
            let words = std::iter::once(length as u64).chain(sums);
            lengths.update(index, &words.flat_map(u64::to_ne_bytes).collect::<Vec<_>>())?;
        }
        // Without this, a longer packet could contain the signature of a shorter one that used its
        // page before.
        let content = (template.reserved() > 0).then(|| -> Result<Map, OsError> {
            let content = filled(template, frame.len() + template.reserved(), frame.len());
            let map = Map::create(MapKind::Array, "wl_content", content.len() as u32, 1)?;
            map.update(0, &content)?;
            Ok(map)
        });
        let content = content.transpose()?;
        Ok(Self { lengths, cycle: cycle.len() as u64, longest: frame.len(), content })
    }
}

/// The number of bytes that the program rewrites for each packet.
fn head_length(template: &Template) -> Result<usize, FieldError> {
    let edits = template.edits().iter().map(|edit| edit.offset + u16::from(edit.width));
    let lengths = template.lengths().iter().map(|length| length.offset + 2);
    let checksums = template.checksums().iter().map(|checksum| checksum.offset + 2);
    let changed = edits.chain(lengths).chain(checksums).max().map_or(0, usize::from);
    if changed > MAX_HEAD {
        return Err(FieldError::Refused(KernelRefusal::TooDeep));
    }
    Ok(changed.max(template.head().len().min(USUAL_HEAD)))
}

/// A frame of `length` bytes, with zeros in the changing fields.
fn frame(template: &Template, length: usize) -> Vec<u8> {
    filled(template, length, length)
}

/// The first `cut` bytes of a packet of `length` bytes, with zeros in the changing fields.
fn filled(template: &Template, length: usize, cut: usize) -> Vec<u8> {
    let head = template.head();
    let mut frame = head.to_vec();
    let end = length.saturating_sub(template.reserved());
    if end > head.len() {
        frame.resize(end, 0);
        if let Some(rest) = frame.get_mut(head.len()..) {
            template.fill().write(rest);
        }
    }
    frame.resize(length, 0);
    frame.truncate(cut);
    frame
}

/// The part of a checksum that depends only on the length.
fn total(template: &Template, checksum: &Checksum, length: usize) -> u64 {
    let head = template.head().len();
    let filled = length.saturating_sub(template.reserved()).saturating_sub(head);
    let mut rest = u64::from(template.fill().sum(filled));
    if head % 2 == 1 {
        rest <<= 8;
    }
    let rest = if checksum.end.is_none() { rest } else { 0 };
    checksum.base + checksum.times * length as u64 + rest
}

/// Assembles a program.
struct ProgramAssembler<'a> {
    parts: &'a ProgramParameters<'a>,
    template: &'a Template,
    head: usize,
    fields: &'a [FieldComputation],
    sizes: Option<&'a SizeTables>,
}

impl ProgramAssembler<'_> {
    fn assemble(
        &self,
        state: &Map,
        pace: Option<&Map>,
        frame: &[u8],
    ) -> Result<Vec<Insn>, wirelane_os::bpf::AsmError> {
        let mut asm = Assembler::new();
        let failed = asm.label();
        asm.emit(Insn::mov_reg(CONTEXT, Reg::R1));
        asm.emit(Insn::mov(Reg::R1, 0));
        look_up(&mut asm, state, failed);
        asm.emit(Insn::mov_reg(STATE, Reg::R0));
        if let Some(pace) = pace {
            wait(&mut asm, pace, failed);
        } else if self.parts.signature.is_some() {
            asm.emit(Insn::call(KTIME_GET_NS));
            asm.emit(Insn::store(Size::Double, Reg::R10, NOW, Reg::R0));
        }
        self.number(&mut asm);
        match self.sizes {
            Some(sizes) => self.resize(&mut asm, sizes, failed),
            None => self.prepare_sums(&mut asm, frame.len()),
        }
        let seen = match (self.sizes, self.parts.signature) {
            (None, Some(_)) => frame.len(),
            _ => self.head,
        };
        reach(&mut asm, seen, failed);
        self.write_head(&mut asm, frame);
        let slot = |sum: usize| SUMS - 8 * sum as i16;
        for (field, edit) in self.fields.iter().zip(self.template.edits()) {
            field.emit(&mut asm, edit, failed, slot);
        }
        self.write_checksums(&mut asm);
        if let Some((key, flow)) = self.parts.signature {
            self.place_signature(&mut asm, frame.len(), failed);
            sign(&mut asm, key, flow);
        }
        asm.emit(Insn::mov(Reg::R1, self.parts.ifindex as i32));
        asm.emit(Insn::mov(Reg::R2, 0));
        asm.emit(Insn::call(REDIRECT));
        asm.emit(Insn::exit());
        asm.place(failed);
        asm.emit(Insn::mov(Reg::R0, XdpAction::Aborted as i32));
        asm.emit(Insn::exit());
        asm.finish()
    }

    /// Emits NUMBER = the packet number, and counts the packet.
    fn number(&self, asm: &mut Assembler) {
        let ThreadShare { index, of } = self.parts.lane;
        asm.emit(Insn::load(Size::Double, NUMBER, STATE, COUNT));
        asm.emit(Insn::mov_reg(Reg::R1, NUMBER));
        asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
        asm.emit(Insn::store(Size::Double, STATE, COUNT, Reg::R1));
        if of > 1 {
            asm.emit(Insn::alu64(Alu::Mul, NUMBER, of as i32));
            asm.emit(Insn::alu64(Alu::Add, NUMBER, index as i32));
        }
    }

    /// Emits the initial checksums: their constant parts.
    fn prepare_sums(&self, asm: &mut Assembler, length: usize) {
        for (index, checksum) in (0..).zip(self.template.checksums()) {
            constant(asm, Reg::R1, total(self.template, checksum, length));
            asm.emit(Insn::store(Size::Double, Reg::R10, SUMS - 8 * index, Reg::R1));
        }
    }

    /// Emits the adjustment to this packet's length: its constant checksum parts, its tail, and its
    /// content.
    fn resize(&self, asm: &mut Assembler, sizes: &SizeTables, failed: Label) {
        asm.emit(Insn::mov_reg(Reg::R1, NUMBER));
        super::code::modulo(asm, Reg::R1, sizes.cycle);
        look_up(asm, &sizes.lengths, failed);
        asm.emit(Insn::load(Size::Double, Reg::R2, Reg::R0, 0));
        asm.emit(Insn::store(Size::Double, Reg::R10, LENGTH, Reg::R2));
        for index in 0..self.template.checksums().len() as i16 {
            asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 8 + 8 * index));
            asm.emit(Insn::store(Size::Double, Reg::R10, SUMS - 8 * index, Reg::R1));
        }
        asm.emit(Insn::mov_reg(Reg::R1, CONTEXT));
        asm.emit(Insn::alu64(Alu::Sub, Reg::R2, sizes.longest as i32));
        asm.emit(Insn::call(XDP_ADJUST_TAIL));
        asm.jump_if(Cond::Ne, Reg::R0, 0, failed);
        let Some(content) = &sizes.content else { return };
        asm.emit(Insn::mov(Reg::R1, 0));
        look_up(asm, content, failed);
        asm.emit(Insn::mov_reg(Reg::R1, CONTEXT));
        asm.emit(Insn::mov(Reg::R2, 0));
        asm.emit(Insn::mov_reg(Reg::R3, Reg::R0));
        asm.emit(Insn::load(Size::Double, Reg::R4, Reg::R10, LENGTH));
        // Tells the verifier the range of lengths in the table.
        asm.jump_if(Cond::Gt, Reg::R4, sizes.longest as i32, failed);
        asm.jump_if(Cond::Eq, Reg::R4, 0, failed);
        asm.emit(Insn::call(XDP_STORE_BYTES));
        asm.jump_if(Cond::Ne, Reg::R0, 0, failed);
        if self.parts.signature.is_none() {
            self.place_signature(asm, sizes.longest, failed);
            for at in (0..16).step_by(4) {
                asm.emit(Insn::store_imm(Size::Word, Reg::R4, at, 0));
            }
            asm.emit(Insn::store_imm(Size::Half, Reg::R4, 16, 0));
        }
    }

    /// Emits the head of the packet, with the length fields.
    fn write_head(&self, asm: &mut Assembler, frame: &[u8]) {
        let mut front = frame.get(..self.head).unwrap_or_default().to_vec();
        for length in self.template.lengths() {
            let at = usize::from(length.offset);
            let value = (frame.len() as u16).wrapping_sub(length.minus);
            if let Some(place) = front.get_mut(at..at + 2) {
                place.copy_from_slice(&value.to_be_bytes());
            }
        }
        store_bytes(asm, &front, 0);
        if self.sizes.is_none() {
            return;
        }
        for length in self.template.lengths() {
            asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R10, LENGTH));
            asm.emit(Insn::alu64(Alu::Sub, Reg::R1, i32::from(length.minus)));
            store_number(asm, FRAME, length.offset as i16, 2, Reg::R1, true);
        }
    }

    fn write_checksums(&self, asm: &mut Assembler) {
        for (index, checksum) in (0..).zip(self.template.checksums()) {
            asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R10, SUMS - 8 * index));
            fold(asm, Reg::R1);
            asm.emit(Insn::alu64(Alu::Xor, Reg::R1, 0xffff));
            if checksum.nonzero {
                let done = asm.label();
                asm.jump_if(Cond::Ne, Reg::R1, 0, done);
                asm.emit(Insn::mov(Reg::R1, 0xffff));
                asm.place(done);
            }
            store_number(asm, FRAME, checksum.offset as i16, 2, Reg::R1, true);
            for outer in (0..32_i16).filter(|outer| checksum.checksums >> outer & 1 == 1) {
                super::code::add_to_sum(asm, SUMS - 8 * outer, Reg::R1, 2, false);
            }
        }
    }

    /// Emits R4 = the address of the signature.
    fn place_signature(&self, asm: &mut Assembler, longest: usize, failed: Label) {
        if self.sizes.is_none() {
            asm.emit(Insn::mov_reg(Reg::R4, FRAME));
            asm.emit(Insn::alu64(Alu::Add, Reg::R4, (longest - signature::LEN) as i32));
            return;
        }
        asm.emit(Insn::load(Size::Word, Reg::R1, CONTEXT, 0));
        asm.emit(Insn::load(Size::Word, Reg::R3, CONTEXT, 4));
        asm.emit(Insn::load(Size::Double, Reg::R4, Reg::R10, LENGTH));
        asm.emit(Insn::alu64(Alu::Sub, Reg::R4, signature::LEN as i32));
        asm.jump_if(Cond::Gt, Reg::R4, longest as i32, failed);
        asm.emit(Insn::alu64_reg(Alu::Add, Reg::R4, Reg::R1));
        asm.emit(Insn::mov_reg(Reg::R2, Reg::R4));
        asm.emit(Insn::alu64(Alu::Add, Reg::R2, signature::LEN as i32));
        asm.jump_if_reg(Cond::Gt, Reg::R2, Reg::R3, failed);
    }
}

/// Emits the wait until the first packet of a group is due; the others of the group leave with it.
/// If the packet is due much later, the program drops the frame uncounted, for a later call.
fn wait(asm: &mut Assembler, pace: &Map, failed: Label) {
    let (again, go, left) = (asm.label(), asm.label(), asm.label());
    let (heads, spaced) = (asm.label(), asm.label());
    asm.emit(Insn::mov(Reg::R1, 0));
    look_up(asm, pace, failed);
    asm.emit(Insn::load(Size::Double, FRAME, STATE, COUNT));
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 8));
    asm.emit(Insn::alu64_reg(Alu::Sub, FRAME, Reg::R1));
    // The position in the group.
    asm.emit(Insn::load(Size::Double, Reg::R3, Reg::R0, 32));
    asm.emit(Insn::alu64_reg(Alu::And, Reg::R3, FRAME));
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 16));
    asm.emit(Insn::alu64_reg(Alu::Mul, FRAME, Reg::R1));
    asm.emit(Insn::alu64(Alu::Shr, FRAME, INTERVAL_SHIFT));
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R0, 0));
    // The due time, in the register that holds the frame later.
    asm.emit(Insn::alu64_reg(Alu::Add, FRAME, Reg::R1));
    asm.emit(Insn::store(Size::Double, Reg::R10, DUE, FRAME));
    asm.jump_if(Cond::Eq, Reg::R3, 0, heads);
    asm.emit(Insn::load(Size::Double, Reg::R0, STATE, LAST));
    asm.emit(Insn::store(Size::Double, Reg::R10, NOW, Reg::R0));
    asm.jump(left);
    asm.place(heads);
    // Keeps the minimum distance to the previous group, if there was one.
    asm.emit(Insn::load(Size::Double, Reg::R1, STATE, LAST));
    asm.jump_if(Cond::Eq, Reg::R1, 0, spaced);
    asm.emit(Insn::load(Size::Double, Reg::R2, Reg::R0, 24));
    asm.emit(Insn::alu64_reg(Alu::Add, Reg::R1, Reg::R2));
    asm.jump_if_reg(Cond::Ge, FRAME, Reg::R1, spaced);
    asm.emit(Insn::mov_reg(FRAME, Reg::R1));
    asm.place(spaced);
    asm.emit(Insn::mov(NUMBER, SPINS));
    asm.place(again);
    asm.emit(Insn::call(KTIME_GET_NS));
    asm.jump_if_reg(Cond::Ge, Reg::R0, FRAME, go);
    asm.emit(Insn::alu64(Alu::Sub, NUMBER, 1));
    asm.jump_if(Cond::Ne, NUMBER, 0, again);
    asm.emit(Insn::mov(Reg::R0, XdpAction::Drop as i32));
    asm.emit(Insn::exit());
    asm.place(go);
    asm.emit(Insn::store(Size::Double, Reg::R10, NOW, Reg::R0));
    asm.emit(Insn::store(Size::Double, STATE, LAST, Reg::R0));
    asm.place(left);
    count_error(asm);
}

/// Emits the update of the histogram with the difference between R0, the departure, and the due
/// time.
fn count_error(asm: &mut Assembler) {
    let (late, told, counted) = (asm.label(), asm.label(), asm.label());
    asm.emit(Insn::mov_reg(Reg::R1, Reg::R0));
    asm.emit(Insn::load(Size::Double, Reg::R2, Reg::R10, DUE));
    asm.jump_if_reg(Cond::Ge, Reg::R1, Reg::R2, late);
    asm.emit(Insn::mov_reg(Reg::R1, Reg::R2));
    asm.emit(Insn::alu64_reg(Alu::Sub, Reg::R1, Reg::R0));
    asm.jump(told);
    asm.place(late);
    asm.emit(Insn::alu64_reg(Alu::Sub, Reg::R1, Reg::R2));
    asm.place(told);
    asm.emit(Insn::load(Size::Double, Reg::R2, STATE, LATEST));
    asm.jump_if_reg(Cond::Ge, Reg::R2, Reg::R1, counted);
    asm.emit(Insn::store(Size::Double, STATE, LATEST, Reg::R1));
    asm.place(counted);
    let steps = STEPS as i32;
    let (within, found) = (asm.label(), asm.label());
    asm.emit(Insn::mov_reg(Reg::R2, Reg::R1));
    asm.emit(Insn::alu64(Alu::Shr, Reg::R1, FINE_SHIFT));
    asm.jump_if(Cond::Lt, Reg::R1, steps, found);
    asm.emit(Insn::mov_reg(Reg::R1, Reg::R2));
    asm.emit(Insn::alu64(Alu::Shr, Reg::R1, COARSE_SHIFT));
    asm.jump_if(Cond::Lt, Reg::R1, steps, within);
    asm.emit(Insn::mov(Reg::R1, steps - 1));
    asm.place(within);
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, steps));
    asm.place(found);
    asm.emit(Insn::alu64(Alu::Shl, Reg::R1, 3));
    asm.emit(Insn::mov_reg(Reg::R2, STATE));
    asm.emit(Insn::alu64_reg(Alu::Add, Reg::R2, Reg::R1));
    asm.emit(Insn::load(Size::Double, Reg::R1, Reg::R2, LATENESS));
    asm.emit(Insn::alu64(Alu::Add, Reg::R1, 1));
    asm.emit(Insn::store(Size::Double, Reg::R2, LATENESS, Reg::R1));
}

/// Emits the signature of the last counted packet, at the address in R4.
fn sign(asm: &mut Assembler, SignatureKey(key): SignatureKey, flow: u32) {
    let (w0, w1, x) = (Reg::R0, Reg::R5, Reg::R1);
    asm.emit(Insn::load(Size::Double, w1, Reg::R10, NOW));
    asm.emit(Insn::load(Size::Double, w0, STATE, COUNT));
    asm.emit(Insn::alu64(Alu::Sub, w0, 1));
    // From the highest bits: the flow, the sequence in 32 bits, the upper 8 bits of the time.
    asm.emit(Insn::alu32_reg(Alu::Mov, w0, w0));
    asm.emit(Insn::alu64(Alu::Shl, w0, 8));
    asm.emit(Insn::mov_reg(x, w1));
    asm.emit(Insn::alu64(Alu::Shr, x, 32));
    asm.emit(Insn::alu64(Alu::And, x, 0xff));
    asm.emit(Insn::alu64_reg(Alu::Or, w0, x));
    asm.extend(Insn::load64(x, u64::from(flow) << 40));
    asm.emit(Insn::alu64_reg(Alu::Or, w0, x));
    asm.emit(Insn::alu32_reg(Alu::Mov, w1, w1));

    let multiply = |asm: &mut Assembler, by| {
        asm.extend(Insn::load64(Reg::R2, by));
        asm.emit(Insn::alu64_reg(Alu::Mul, x, Reg::R2));
    };
    asm.extend(Insn::load64(x, key));
    asm.emit(Insn::alu64_reg(Alu::Xor, x, w0));
    multiply(asm, signature::M0);
    asm.emit(Insn::mov_reg(Reg::R2, x));
    asm.emit(Insn::alu64(Alu::Shr, Reg::R2, 32));
    asm.emit(Insn::alu64_reg(Alu::Xor, x, Reg::R2));
    asm.emit(Insn::alu64_reg(Alu::Xor, x, w1));
    multiply(asm, signature::M1);
    asm.emit(Insn::alu64(Alu::Shr, x, 32));

    store_number(asm, Reg::R4, 0, 4, x, true);
    store_number(asm, Reg::R4, 4, 8, w0, true);
    store_number(asm, Reg::R4, 12, 4, w1, true);
    asm.emit(Insn::alu64_reg(Alu::Add, x, w1));
    asm.emit(Insn::alu32_reg(Alu::Mov, Reg::R2, w0));
    asm.emit(Insn::alu64_reg(Alu::Add, x, Reg::R2));
    asm.emit(Insn::alu64(Alu::Shr, w0, 32));
    asm.emit(Insn::alu64_reg(Alu::Add, x, w0));
    fold(asm, x);
    asm.emit(Insn::alu64(Alu::Xor, x, 0xffff));
    store_number(asm, Reg::R4, 16, 2, x, true);
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
