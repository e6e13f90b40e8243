//! Bounded-window merge of the queues' chunks into one order of time.
//!
//! Packets leave in the order of their timestamps when no queue can deliver an older one: the
//! watermark of each queue promises that no older packet follows. The writer stops waiting for a
//! queue that is silent for too long. If that queue then delivers a packet older than one that has
//! left, the packet is written at once and counted as a violation. Consecutive packets of one queue
//! leave as one run of bytes.

use std::collections::VecDeque;

use super::chunk::Chunk;
use crate::pcap::Record;

pub(super) struct ChunkMerge {
    inputs: Vec<MergeInput>,
    /// The packets of the single input keep their order.
    keeps_order: bool,
    /// Timestamp of the newest packet that has left.
    newest: u64,
    violations: u64,
}

struct MergeInput {
    chunks: VecDeque<Chunk>,
    /// Offset of the next block in the first chunk, and the number of blocks before it.
    offset: usize,
    passed: u64,
    /// Timestamp of that block, if there is one.
    head: Option<u64>,
    /// No older packet follows the queued ones.
    watermark: u64,
}

/// A run of blocks that may be written now.
pub(super) struct BlockRun<'a> {
    pub(super) input: usize,
    pub(super) chunk: &'a Chunk,
    /// A range of bytes in the chunk.
    pub(super) range: std::ops::Range<usize>,
    pub(super) packets: u64,
}

impl<'a> BlockRun<'a> {
    /// The blocks, in the format of the file.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.chunk.bytes().get(self.range.clone()).unwrap_or_default()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Record<'a>> {
        let chunk = self.chunk;
        self.places().filter_map(|at| chunk.record(at))
    }

    /// The packets with their options, one by one.
    pub(super) fn with_options(&self) -> impl Iterator<Item = (Record<'a>, &'a [u8])> {
        let chunk = self.chunk;
        self.places().filter_map(|at| Some((chunk.record(at)?, chunk.options(at))))
    }

    /// The offsets of the blocks.
    fn places(&self) -> impl Iterator<Item = usize> + use<'a> {
        let (chunk, end, mut at) = (self.chunk, self.range.end, self.range.start);
        std::iter::from_fn(move || {
            let here = at;
            at += chunk.block(here)?.len;
            (here < end).then_some(here)
        })
    }
}

impl ChunkMerge {
    /// A merge of `inputs` inputs. `keeps_order`: it has one input, whose packets keep their order.
    pub(super) fn new(inputs: usize, keeps_order: bool) -> Self {
        let input = || MergeInput {
            chunks: VecDeque::new(),
            offset: 0,
            passed: 0,
            head: None,
            watermark: 0,
        };
        let inputs = (0..inputs).map(|_| input()).collect();
        Self { inputs, keeps_order, newest: 0, violations: 0 }
    }

    /// Queues a chunk after the earlier chunks of its input, independent of its times.
    pub(super) fn append(&mut self, input: usize, chunk: Chunk) {
        let input = &mut self.inputs[input];
        input.chunks.push_back(chunk);
        input.find_head();
    }

    /// Queues a chunk, whose packets are in order, after the chunks of the same input. If the chunk
    /// is older than the end of the queue, its packets are merged into the last chunks, and `spent`
    /// gets the chunk.
    pub(super) fn push(
        &mut self,
        input: usize,
        mut chunk: Chunk,
        scratch: &mut Vec<u8>,
        mut spent: impl FnMut(Chunk),
    ) {
        let input = &mut self.inputs[input];
        while input.chunks.back().is_some_and(|last| last.newest() > chunk.oldest())
            && let Some(mut last) = input.chunks.pop_back()
        {
            let left = if input.chunks.is_empty() { input.offset } else { 0 };
            last.absorb(&chunk, left, scratch);
            spent(std::mem::replace(&mut chunk, last));
        }
        input.chunks.push_back(chunk);
        input.find_head();
    }

    /// Sets the time before which no packet of `input` will be queued.
    pub(super) fn set_watermark(&mut self, input: usize, time: u64) {
        let input = &mut self.inputs[input];
        input.watermark = input.watermark.max(time);
    }

    /// How many packets were older than one that had already left.
    pub(super) fn violations(&self) -> u64 {
        self.violations
    }

    /// Whether no chunk is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.iter().all(|input| input.chunks.is_empty())
    }

    /// Timestamp of the oldest queued packet; `u64::MAX` without one.
    pub(super) fn oldest(&self) -> u64 {
        self.inputs.iter().filter_map(|input| input.head).min().unwrap_or(u64::MAX)
    }

    /// The lowest watermark of the inputs: no older packet will be queued.
    pub(super) fn horizon(&self) -> u64 {
        self.inputs.iter().map(|input| input.watermark).min().unwrap_or(u64::MAX)
    }

    /// Takes the next run up to the time `limit`, of at most `most` packets, and passes it to
    /// `write`. Returns the input of the run, or `None` if there is no run. Call
    /// [`ChunkMerge::take_spent`] after it.
    #[inline]
    pub(super) fn pop<E>(
        &mut self,
        mut limit: u64,
        most: u64,
        write: impl FnOnce(BlockRun<'_>) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        // The oldest head, and the time up to which its input may continue alone.
        let (mut first, mut oldest) = (usize::MAX, u64::MAX);
        for (i, input) in self.inputs.iter().enumerate() {
            let Some(time) = input.head else { continue };
            if first == usize::MAX || time < oldest {
                if first != usize::MAX {
                    limit = limit.min(oldest);
                }
                (first, oldest) = (i, time);
            } else {
                limit = limit.min(time);
            }
        }
        if self.keeps_order {
            limit = u64::MAX;
        }
        if first == usize::MAX || oldest > limit || most == 0 {
            return Ok(None);
        }
        let MergeInput { chunks, offset, passed, head, .. } = &mut self.inputs[first];
        let Some(chunk) = chunks.front() else { return Ok(None) };
        let (start, mut end, mut packets) = (*offset, *offset, 0);
        let rest = chunk.packets() - *passed;
        let in_order = chunk.newest() <= limit && oldest >= self.newest;
        if rest <= most && (self.keeps_order || in_order) {
            // All remaining packets, in order. Their blocks are in the cache of another CPU, so
            // they are not read.
            (self.newest, *head) = (chunk.newest(), None);
            (end, packets) = (chunk.bytes().len(), rest);
        } else {
            *head = loop {
                let Some(block) = chunk.block(end) else { break None };
                if block.timestamp > limit || packets == most {
                    break Some(block.timestamp);
                }
                self.violations += u64::from(block.timestamp < self.newest && !self.keeps_order);
                self.newest = self.newest.max(block.timestamp);
                end += block.len;
                packets += 1;
            };
        }
        *offset = end;
        *passed += packets;
        write(BlockRun { input: first, chunk, range: start..end, packets })?;
        Ok(Some(first))
    }

    /// Takes the first chunk out, and passes its packets that have not left to `show`.
    pub(super) fn take_unwritten(
        &mut self,
        input: usize,
        mut show: impl FnMut(Record<'_>),
    ) -> Option<Chunk> {
        let input = &mut self.inputs[input];
        let chunk = input.chunks.pop_front()?;
        while let Some(block) = chunk.block(input.offset) {
            chunk.record(input.offset).map(&mut show);
            input.offset += block.len;
        }
        input.begin();
        Some(chunk)
    }

    /// Takes out the first chunk of an input if all of its packets have left.
    #[inline]
    pub(super) fn take_spent(&mut self, input: usize) -> Option<Chunk> {
        let input = &mut self.inputs[input];
        if input.head.is_some() {
            return None;
        }
        let chunk = input.chunks.pop_front();
        input.begin();
        chunk
    }
}

impl MergeInput {
    /// Starts with the first chunk.
    fn begin(&mut self) {
        (self.offset, self.passed) = (0, 0);
        self.find_head();
    }

    fn find_head(&mut self) {
        self.head = self
            .chunks
            .front()
            .and_then(|chunk| chunk.block(self.offset))
            .map(|block| block.timestamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::pcapng;
    use proptest::prelude::*;

    fn chunk(input: usize, times: &[u64]) -> Chunk {
        let mut bytes = Vec::new();
        for time in times {
            let data = [input as u8; 5];
            let record = Record {
                interface: input as u32,
                timestamp: *time,
                original_len: 60,
                direction: crate::pcap::Direction::Unknown,
                data: &data,
            };
            pcapng::packet(&mut bytes, &record);
        }
        Chunk::from_blocks(bytes)
    }

    fn push(merge: &mut ChunkMerge, input: usize, times: &[u64]) {
        let mut chunk = chunk(input, times);
        chunk.sort(&mut Vec::new());
        merge.push(input, chunk, &mut Vec::new(), drop);
    }

    /// Everything that may leave now, as (input, time).
    fn pop_all(merge: &mut ChunkMerge, overdue: u64) -> Vec<(usize, u64)> {
        let mut out = Vec::new();
        let limit = merge.horizon().max(overdue);
        while let Ok(Some(from)) = merge.pop(limit, u64::MAX, |run| {
            let records: Vec<_> = run.records().collect();
            assert_eq!(records.len() as u64, run.packets);
            assert!(records.iter().all(|record| record.data == [run.input as u8; 5]));
            out.extend(records.iter().map(|record| (run.input, record.timestamp)));
            Ok::<_, ()>(())
        }) {
            merge.take_spent(from);
        }
        out
    }

    #[test]
    fn waits_for_a_silent_input_and_no_longer() {
        let mut merge = ChunkMerge::new(2, false);
        push(&mut merge, 0, &[10, 20, 30]);
        merge.set_watermark(0, 30);
        assert_eq!(pop_all(&mut merge, 0), []);
        merge.set_watermark(1, 20);
        assert_eq!(pop_all(&mut merge, 0), [(0, 10), (0, 20)]);
        assert_eq!(merge.horizon(), 20);
        assert_eq!(pop_all(&mut merge, 30), [(0, 30)]);
        push(&mut merge, 1, &[25, 40]);
        merge.set_watermark(0, u64::MAX);
        assert_eq!(pop_all(&mut merge, 30), [(1, 25)]);
        merge.set_watermark(1, 40);
        assert_eq!(pop_all(&mut merge, 30), [(1, 40)]);
        assert_eq!(merge.violations(), 1);
    }

    #[test]
    fn one_input_may_keep_its_order() {
        let mut merge = ChunkMerge::new(1, true);
        let mut out = Vec::new();
        for times in [&[30, 10, 20][..], &[5, u64::MAX, 0], &[7]] {
            merge.append(0, chunk(0, times));
            out.extend(pop_all(&mut merge, 0).into_iter().map(|(_, time)| time));
        }
        assert_eq!(out, [30, 10, 20, 5, u64::MAX, 0, 7]);
        assert_eq!(merge.violations(), 0);
    }

    #[test]
    fn a_queue_out_of_order_is_sorted() {
        let mut merge = ChunkMerge::new(1, false);
        push(&mut merge, 0, &[3, 1, 2, 2]);
        merge.set_watermark(0, 2);
        assert_eq!(pop_all(&mut merge, 0), [(0, 1), (0, 2), (0, 2)]);
        // Older than the end of the last chunk, of which no packet has left.
        push(&mut merge, 0, &[5, 2]);
        merge.set_watermark(0, 9);
        assert_eq!(pop_all(&mut merge, 0), [(0, 2), (0, 3), (0, 5)]);
        assert_eq!(merge.violations(), 0);
    }

    #[test]
    fn so_many_packets_leave_and_the_rest_stays() {
        let mut merge = ChunkMerge::new(2, false);
        push(&mut merge, 0, &[10, 20, 50]);
        push(&mut merge, 1, &[30, 40]);
        merge.set_watermark(0, u64::MAX);
        merge.set_watermark(1, u64::MAX);
        let (mut left, mut out) = (4, Vec::new());
        while let Ok(Some(from)) = merge.pop(u64::MAX, left, |run| {
            assert!(run.packets <= left);
            left -= run.packets;
            out.extend(run.records().map(|record| record.timestamp));
            Ok::<_, ()>(())
        }) {
            merge.take_spent(from);
        }
        assert_eq!(out, [10, 20, 30, 40]);
        let mut rest = Vec::new();
        assert!(merge.take_unwritten(0, |record| rest.push(record.timestamp)).is_some());
        assert!(rest == [50] && merge.is_empty());
        // A run may also end in the middle of a chunk.
        push(&mut merge, 0, &[60, 70, 80]);
        let popped = merge.pop(u64::MAX, 2, |run| {
            assert_eq!(run.records().map(|record| record.timestamp).collect::<Vec<_>>(), [60, 70]);
            Ok::<_, ()>(())
        });
        assert_eq!(popped, Ok(Some(0)));
        assert!(merge.take_spent(0).is_none() && !merge.is_empty());
    }

    #[test]
    fn what_was_not_written_is_counted() {
        let mut merge = ChunkMerge::new(1, false);
        push(&mut merge, 0, &[1, 2, 3]);
        let mut lost = Vec::new();
        assert!(merge.take_unwritten(0, |record| lost.push(record.original_len)).is_some());
        assert_eq!(lost, [60; 3]);
        assert!(merge.take_unwritten(0, |_| ()).is_none());
    }

    proptest! {
        /// For any chunks in any order: all packets leave, in order of time, if every input keeps
        /// its promises.
        #[test]
        fn sorted_and_complete(
            inputs in proptest::collection::vec(proptest::collection::vec(0u64..200, 0..40), 1..5),
            cut in 1usize..7,
            disorder in 0usize..3,
        ) {
            let mut merge = ChunkMerge::new(inputs.len(), false);
            let mut expected: Vec<(usize, u64)> = Vec::new();
            let mut queues: Vec<Vec<u64>> = inputs;
            for (i, times) in queues.iter_mut().enumerate() {
                times.sort_unstable();
                // Out of order by a few places, as stamps of several CPUs are.
                times.chunks_mut(disorder + 1).for_each(<[u64]>::reverse);
                expected.extend(times.iter().map(|time| (i, *time)));
            }
            let mut out = Vec::new();
            while queues.iter().any(|times| !times.is_empty()) {
                for (i, times) in queues.iter_mut().enumerate() {
                    let part: Vec<_> = times.drain(..cut.min(times.len())).collect();
                    if !part.is_empty() {
                        push(&mut merge, i, &part);
                    }
                    merge.set_watermark(i, times.iter().min().copied().unwrap_or(u64::MAX));
                }
                out.extend(pop_all(&mut merge, 0));
            }
            out.extend(pop_all(&mut merge, 0));
            prop_assert!(out.windows(2).all(|pair| pair[0].1 <= pair[1].1));
            prop_assert_eq!(merge.violations(), 0);
            out.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(out, expected);
        }
    }
}
