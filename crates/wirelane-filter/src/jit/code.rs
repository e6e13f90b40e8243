//! A code buffer for any processor: instructions, labels for jumps, and constants after the
//! instructions.

/// A place in the code, which may be bound later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeLabel(usize);

/// Instructions, their labels and constants.
#[derive(Default)]
pub(super) struct JitCode {
    bytes: Vec<u8>,
    /// The position of each label.
    labels: Vec<Option<usize>>,
    /// Constants of 16 bytes, after the instructions.
    constants: Vec<[u32; 4]>,
    links: Vec<Fixup>,
}

/// An instruction that holds a distance to its target, which is known only at the end.
#[derive(Clone, Copy)]
struct Fixup {
    from: usize,
    goal: FixupTarget,
}

#[derive(Clone, Copy)]
enum FixupTarget {
    Label(CodeLabel),
    Constant(usize),
}

/// Longer code, in bytes, is refused; the longest filter needs less.
const MAX: usize = 1 << 24;

impl JitCode {
    pub(super) fn label(&mut self) -> CodeLabel {
        self.labels.push(None);
        CodeLabel(self.labels.len() - 1)
    }

    /// Binds `label` to the current position.
    pub(super) fn bind(&mut self, label: CodeLabel) {
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(self.bytes.len());
        }
    }

    /// Bytes of the instructions so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn extend<B: IntoIterator<Item = u8>>(&mut self, bytes: B) {
        self.bytes.extend(bytes);
    }

    /// Records that the distance from here to `label` must be filled in.
    pub(super) fn link(&mut self, label: CodeLabel) {
        self.links.push(Fixup { from: self.bytes.len(), goal: FixupTarget::Label(label) });
    }

    /// Records that the distance from here to a constant of these words must be filled in.
    pub(super) fn link_constant(&mut self, constant: [u32; 4]) {
        let goal = FixupTarget::Constant(self.constants.len());
        self.links.push(Fixup { from: self.bytes.len(), goal });
        self.constants.push(constant);
    }

    /// The code with its constants. `fill` writes each distance, relative to the place that it
    /// receives, and returns `None` if the distance does not fit. `padding` fills the space before
    /// the constants.
    ///
    /// Also `None` if a label is not bound, or if the code is too long.
    pub(super) fn finish(
        mut self,
        padding: u8,
        fill: impl Fn(&mut [u8], usize, i64) -> Option<()>,
    ) -> Option<Vec<u8>> {
        while !self.constants.is_empty() && !self.bytes.len().is_multiple_of(16) {
            self.bytes.push(padding);
        }
        let constants = self.bytes.len();
        for constant in &self.constants {
            self.bytes.extend(constant.iter().flat_map(|word| word.to_le_bytes()));
        }
        if self.bytes.len() > MAX {
            return None;
        }
        for Fixup { from, goal } in self.links {
            let place = match goal {
                FixupTarget::Label(label) => self.labels.get(label.0).copied().flatten()?,
                FixupTarget::Constant(index) => constants + index * 16,
            };
            fill(&mut self.bytes, from, place as i64 - from as i64)?;
        }
        Some(self.bytes)
    }
}
