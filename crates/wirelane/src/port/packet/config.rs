//! The options of a packet port, from its spec and [`OpenOptions`].

use std::time::Duration;

use wirelane_os::mmap::page_size;
use wirelane_os::packet::{RingRequest, SlotRingRequest};

use super::membership::Sharing;
use super::ring::{AROUND_SLOT, MemoryRequest};
use crate::error::{Error, Result};
use crate::port::number::{parse_number, parse_time};
use crate::port::options::OpenOptions;
use crate::port::spec::Spec;

/// Memory of all selected rings together, unless the user sets the size of a ring. The kernel
/// clears it page by page, which takes 10 to 200 ms here; `ring=` and `--ring` request more.
pub(super) const BUDGET: usize = 128 << 20;
const LEAST: usize = 2 << 20;
/// Memory per packet for a program that wants few packets: three full frames of the usual MTU.
/// Packets of other links, and packets that the kernel or the device has merged, are longer: a ring
/// holds fewer of them at a time.
const FRAME: usize = 5 << 10;
/// The minimum for such a program.
const LEAST_OF_FEW: usize = 512 << 10;
const MOST: usize = 16 << 20;
/// How long a consumer may stall. The timer hands over even nearly empty blocks, so a stall longer
/// than `retire` times the number of blocks loses packets at any rate. So a ring has enough blocks
/// for this time if each needs to hold only the longest frame; the default of `retire` provides the
/// rest.
const STALL: Duration = Duration::from_millis(10_500);
/// Larger blocks save no wake-ups: a receiver naps while full blocks arrive.
const BLOCK: usize = 2 << 20;
/// The default ring size has room for this many blocks of the longest frame.
const BLOCKS: usize = 16;
const FEWEST_BLOCKS: usize = 4;
/// More blocks for a short latency are not worth their memory.
const MOST_BLOCKS: usize = 256;
const LARGEST_RING: usize = 4 << 30;
const LARGEST_BLOCK: usize = 64 << 20;
/// A program that wants few packets gets a block for each, up to this many.
const BLOCKS_OF_FEW: usize = 64;
/// Bytes that the kernel adds to a single packet in a block: the descriptor and the headers.
const AROUND: usize = 256;
/// Nominal frame size of blocks: the kernel checks it, but packs packets regardless. For slots it
/// is the real size, with room for a packet of the usual MTU.
const FRAME_SIZE: usize = 2048;
const SHORTEST_SLOT: usize = 256;
/// Bytes of slots that the kernel allocates at a time.
const SLOTS_AT_ONCE: usize = 16 << 10;
/// The most rings opened or closed at a time.
const AT_ONCE: usize = 32;
/// Each ring wakes its thread once in this time. At moderate rates these wake-ups are most of the
/// cost of receiving.
const RETIRE: Duration = Duration::from_millis(50);
/// The longest acceptable delay while a user watches the packets.
const LONGEST_RETIRE: Duration = Duration::from_millis(700);
/// The kernel's unit is a millisecond.
const SHORTEST_RETIRE: Duration = Duration::from_millis(1);

/// The options of a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) ring: Option<usize>,
    /// Bytes of a block; a power of two.
    pub(super) block: Option<usize>,
    /// Bytes of all rings together that the program requests.
    pub(super) all_rings: Option<usize>,
    /// The number of packets that the program wants.
    pub(super) packets: Option<u64>,
    /// After this time the kernel hands over a block that is not full; `None` if the user does not
    /// set it.
    pub(super) retire: Option<Duration>,
    /// The longest default of `retire`.
    pub(super) latency: Option<Duration>,
    /// Bypass the queueing discipline on transmit.
    pub(super) bypass: bool,
    /// Which frames the kernel segments.
    pub(super) vnet: Vnet,
    /// Share the packets with other handles.
    pub(super) share: Option<Sharing>,
}

/// Which frames to segment are passed to the kernel whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vnet {
    /// The frames that the device segments, if the program sets `Forwarding::segments`.
    Auto,
    /// All frames that the kernel can segment.
    On,
    /// None.
    Off,
}

impl Config {
    /// Reads the options `ring`, `block`, `retire`, `bypass`, `vnet` and `share`.
    ///
    /// # Errors
    /// An unknown option, or a value of the wrong form.
    pub(super) fn parse(spec: &Spec, open: &OpenOptions) -> Result<Self> {
        let mut options = spec.options();
        let size = "a size such as 64M, from 16Ki to 4Gi";
        let ring = options.value("ring", open.ring_bytes, size, |text| bytes(text).map(Some))?;
        let size = "a size such as 1Mi, from 4Ki to 64Mi";
        let block = options.value("block", None, size, |text| {
            let power = bytes(text)?.checked_next_power_of_two()?;
            (page_size()..=LARGEST_BLOCK).contains(&power).then_some(Some(power))
        })?;
        let times = "a time such as 20ms, 1ms to 10s, or 0 for packets one by one";
        let retire = options.value("retire", None, times, |text| match text {
            "0" => Some(Some(Duration::ZERO)),
            _ => parse_time(text, "ms", "s").map(|time| Some(Duration::from_millis(time))),
        })?;
        let switch = |text: &str| match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        let bypass = options.value("bypass", false, "on or off", switch)?;
        let vnet = options.value("vnet", Vnet::Auto, "auto, on or off", |text| match text {
            "auto" => Some(Vnet::Auto),
            _ => switch(text).map(|on| if on { Vnet::On } else { Vnet::Off }),
        })?;
        let shape = "off, queue or flow, with a number up to 65535 as in flow:7";
        let share = options.value("share", None, shape, |text| match text {
            "off" => Some(None),
            _ => Sharing::parse(text).map(Some),
        })?;
        options.finish()?;
        if let (Some(ring), Some(block)) = (ring, block)
            && block > ring / FEWEST_BLOCKS
        {
            let cause = format!("a block of {block} bytes exceeds a quarter of the ring of {ring}");
            return Err(Error::usage(format!("port '{spec}'"), cause));
        }
        let (all_rings, packets, latency) =
            (open.internal.all_rings, open.internal.packets, open.latency);
        Ok(Self { ring, block, all_rings, packets, retire, latency, bypass, vnet, share })
    }

    /// Whether the kernel should hand over single packets. Blocks take longer than this.
    pub(super) fn is_immediate(&self) -> bool {
        self.retire.or(self.latency).is_some_and(|time| time < SHORTEST_RETIRE)
    }

    /// Whether the program needs packets earlier than usual.
    pub(super) fn is_prompt(&self) -> bool {
        self.shortest_retire() < RETIRE
    }

    /// The time after which the kernel hands over a block that is not full, in a ring of `blocks`.
    pub(super) fn retire(&self, blocks: usize) -> Duration {
        let shortest = self.shortest_retire();
        // One block per packet is enough.
        let of_few = |packets| usize::try_from(packets).is_ok_and(|packets| packets <= blocks);
        if self.retire.is_some() || self.packets.is_some_and(of_few) {
            return shortest;
        }
        let enough = STALL.as_millis().div_ceil(blocks.max(1) as u128);
        let enough = Duration::from_millis(u64::try_from(enough).unwrap_or(u64::MAX));
        enough.min(self.latency.unwrap_or(LONGEST_RETIRE).min(LONGEST_RETIRE)).max(shortest)
    }

    /// The same for a ring with enough blocks.
    fn shortest_retire(&self) -> Duration {
        let latency = self.latency.unwrap_or(RETIRE).clamp(SHORTEST_RETIRE, RETIRE);
        self.retire.unwrap_or(latency).max(SHORTEST_RETIRE)
    }

    /// The request to the kernel: a ring of the shape `ring` whose blocks are handed over after
    /// `retire`. If `retire` is 0, the same memory as slots for the first `longest` bytes of
    /// packets.
    pub(super) fn request(
        (block, count): (usize, usize),
        retire: Duration,
        longest: usize,
    ) -> MemoryRequest {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        if !retire.is_zero() {
            return MemoryRequest::Blocks(RingRequest {
                block_size: number(block),
                block_count: number(count),
                frame_size: number(block.min(FRAME_SIZE)),
                retire_ms: u32::try_from(retire.as_millis()).unwrap_or(u32::MAX),
                fill_rxhash: false,
            });
        }
        let slot = longest.saturating_add(AROUND_SLOT).next_power_of_two();
        let block_size = SLOTS_AT_ONCE.max(page_size());
        MemoryRequest::Slots(SlotRingRequest {
            block_size: number(block_size),
            block_count: number((block * count / block_size).max(1)),
            frame_size: number(slot.clamp(SHORTEST_SLOT, FRAME_SIZE)),
        })
    }

    /// The number of blocks, each of the shortest time, that covers a stall.
    fn blocks_of_a_stall(&self) -> usize {
        let blocks = STALL.as_nanos().div_ceil(self.shortest_retire().as_nanos().max(1));
        usize::try_from(blocks).unwrap_or(usize::MAX)
    }

    /// How many rings to open or close at a time. For few packets, more threads are not worth their
    /// cost.
    pub(super) fn at_once(&self) -> usize {
        if self.packets.is_some_and(|packets| packets <= OpenOptions::FEW) { 2 } else { AT_ONCE }
    }

    /// The shape of a ring that the masks exclude, next to rings of `selected` shape. It exists in
    /// case the masks change, and is small unless the user set the size.
    pub(super) fn excluded(&self, selected: (usize, usize)) -> (usize, usize) {
        match self.ring.or(self.block) {
            Some(_) => selected,
            None => (selected.0, selected.1.min((LEAST / selected.0).max(FEWEST_BLOCKS))),
        }
    }

    /// Block size and number of blocks of each of `rings` rings, for frames of at most `longest`
    /// bytes.
    pub(super) fn shape(&self, rings: usize, longest: usize) -> (usize, usize) {
        let single = holding(longest);
        let blocks = self.blocks_of_a_stall();
        // If a latency forbids waiting longer for a block, more blocks are needed.
        let for_a_stall = match self.latency {
            Some(latency) if blocks <= MOST_BLOCKS && latency * (MOST / single) as u32 <= STALL => {
                blocks * single
            }
            _ => 0,
        };
        let asked = self.all_rings.map(|all| all / rings.max(1));
        let usual = if asked.is_some() { BLOCKS_OF_FEW * single } else { MOST };
        let share = (BUDGET / rings.max(1)).min(usual.max(for_a_stall)).max(LEAST);
        let share = share.max(BLOCKS * single).max(asked.unwrap_or(0)).min(LARGEST_RING);
        // One ring may receive all of the packets.
        let of_few = |packets| {
            let packets = usize::try_from(packets).unwrap_or(usize::MAX);
            packets.saturating_mul(FRAME).max(packets.min(BLOCKS_OF_FEW) * single)
        };
        let few = self.packets.map_or(usize::MAX, of_few).max(LEAST_OF_FEW);
        let share = share.min(few);
        let least = FEWEST_BLOCKS * self.block.unwrap_or(page_size());
        let ring = self.ring.unwrap_or(share).max(least);
        let block = self.block.unwrap_or_else(|| {
            let power = |bytes: usize| 1 << bytes.max(1).ilog2();
            let least = power(ring / FEWEST_BLOCKS).min(single);
            power(ring / blocks.max(2 * FEWEST_BLOCKS))
                .clamp(least, BLOCK.max(least))
                .max(page_size())
        });
        (block, (ring / block).max(FEWEST_BLOCKS))
    }
}

/// The smallest block that holds `longest` bytes of a frame. The kernel allocates powers of two.
pub(super) fn holding(longest: usize) -> usize {
    longest.saturating_add(AROUND).clamp(page_size(), LARGEST_BLOCK).next_power_of_two()
}

/// The next smaller ring to try if the kernel lacks memory for this one.
pub(super) fn smaller((block, count): (usize, usize)) -> Option<(usize, usize)> {
    if count >= 2 * FEWEST_BLOCKS {
        return Some((block, count / 2));
    }
    (block >= 2 * page_size()).then_some((block / 2, count))
}

fn bytes(text: &str) -> Option<usize> {
    let bytes = usize::try_from(parse_number(text)?).ok()?;
    (4096..=LARGEST_RING).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::program_options::ProgramOptions;

    /// Bytes of the longest frames of most interfaces.
    const USUAL: usize = 65_600;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(&text.parse().unwrap(), &OpenOptions::default())
    }

    #[test]
    fn every_option() {
        let config =
            parse("packet:a?ring=64M&block=256Ki&retire=5ms&bypass=on&vnet=on&share=flow:7")
                .unwrap();
        let expected = Config {
            ring: Some(64_000_000),
            block: Some(256 << 10),
            all_rings: None,
            packets: None,
            retire: Some(Duration::from_millis(5)),
            latency: None,
            bypass: true,
            vnet: Vnet::On,
            share: Sharing::parse("flow:7"),
        };
        assert_eq!(config, expected);
        assert_eq!(config.shape(9, USUAL), (256 << 10, 244));
        for (query, expected) in
            [("", Vnet::Auto), ("?vnet=auto", Vnet::Auto), ("?vnet=off", Vnet::Off)]
        {
            assert_eq!(parse(&format!("packet:a{query}")).unwrap().vnet, expected);
        }
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for query in [
            "ring=0",
            "ring=x",
            "ring=5Gi",
            "block=1",
            "block=65Mi",
            "retire=0ms",
            "retire=20",
            "retire=11s",
            "retire=-1s",
            "bypass=1",
            "vnet=1",
            "share=on",
            "share=flow:65536",
            "rings=1M",
            "ring=64Ki&block=32Ki",
        ] {
            let error = parse(&format!("packet:a?{query}")).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Usage, "{query}: {error}");
        }
    }

    #[test]
    fn rings_share_a_budget_within_limits() {
        let default = parse("a").unwrap();
        for rings in [1, 3, 9, 33, 129, 4097] {
            let (block, count) = default.shape(rings, USUAL);
            assert!(block.is_power_of_two() && count >= FEWEST_BLOCKS);
            let ring = block * count;
            assert!((LEAST / 2..=MOST).contains(&ring), "{rings}: {ring}");
            assert!(rings > 64 || ring * rings <= BUDGET + LEAST, "{rings}: {ring}");
        }
        assert_eq!(default.shape(1, USUAL), (128 << 10, 128));
        assert_eq!(default.shape(1000, USUAL), (128 << 10, 16));
        assert_eq!(default.excluded((128 << 10, 128)), (128 << 10, 16));
        assert_eq!(default.excluded((512 << 10, 32)), (512 << 10, 4));
    }

    #[test]
    fn rings_hold_ten_seconds_and_the_longest_frames() {
        for longest in [96, 2048, USUAL, 180_000, 262_144] {
            for rings in [1, 3, 9, 33, 129, 4097] {
                let default = parse("a").unwrap();
                let (block, count) = default.shape(rings, longest);
                let held = default.retire(count) * u32::try_from(count).unwrap();
                assert!(held >= STALL, "{longest} {rings}: {held:?}");
                assert!(block >= longest + AROUND, "{longest} {rings}: {block}");
            }
        }
        let retire = |text: &str, count| parse(text).unwrap().retire(count).as_millis();
        assert_eq!([retire("a", 1000), retire("a", 128), retire("a", 4)], [50, 83, 700]);
        assert_eq!([retire("a?retire=2ms", 4), retire("a?retire=5s", 4)], [2, 5000]);
    }

    #[test]
    fn a_short_latency_has_more_blocks_within_the_budget() {
        let shape = |latency: u64, rings| {
            let open = OpenOptions::default().latency(Duration::from_millis(latency));
            let config = Config::parse(&"a".parse().unwrap(), &open).unwrap();
            let (block, count) = config.shape(rings, USUAL);
            (block >> 10, count, config.retire(count).as_millis())
        };
        assert_eq!(shape(50, 3), (128, 210, 50));
        assert_eq!(shape(50, 9), (128, 113, 50));
        assert_eq!([shape(1, 3), shape(250, 3)], [(128, 128, 1), (128, 128, 83)]);
    }

    #[test]
    fn programs_say_how_much_they_want_in_all() {
        for longest in [96, USUAL, usize::MAX] {
            let open = OpenOptions::default().internal(ProgramOptions::default().all_rings(1));
            let config = Config::parse(&"a".parse().unwrap(), &open).unwrap();
            assert!(config.shape(1, longest).0 >= longest.min(LARGEST_BLOCK), "{longest}");
        }
        let shape = |bytes: usize, rings| {
            let open = OpenOptions::default().internal(ProgramOptions::default().all_rings(bytes));
            let (block, count) =
                Config::parse(&"a".parse().unwrap(), &open).unwrap().shape(rings, USUAL);
            block * count
        };
        assert_eq!([shape(1, 3), shape(24 << 20, 3), shape(1, 1000)], [8 << 20, 8 << 20, 2 << 20]);
        assert_eq!([shape(96 << 20, 3), shape(usize::MAX, 3)], [32 << 20, LARGEST_RING]);
    }

    #[test]
    fn a_latency_limits_the_time() {
        let retire = |latency| {
            let open = OpenOptions::default().latency(Duration::from_millis(latency));
            let config = Config::parse(&"a".parse().unwrap(), &open).unwrap();
            (config.retire(100).as_millis(), config.is_prompt())
        };
        assert_eq!(retire(0), (1, true));
        assert_eq!(retire(20), (20, true));
        assert_eq!(retire(60), (60, false));
        assert_eq!(retire(5000), (105, false));
    }

    #[test]
    fn no_time_is_one_by_one() {
        let is_immediate = |text: &str, latency: Option<u64>| {
            let open = OpenOptions::default().latency(latency.map(Duration::from_micros));
            Config::parse(&text.parse().unwrap(), &open).unwrap().is_immediate()
        };
        assert!(is_immediate("a?retire=0", None) && is_immediate("a?retire=0", Some(5000)));
        assert!(is_immediate("a", Some(0)) && is_immediate("a", Some(999)));
        assert!(!is_immediate("a", None) && !is_immediate("a", Some(1000)));
        assert!(!is_immediate("a?retire=1ms", Some(0)));
    }

    #[test]
    fn slots_take_the_memory_of_blocks() {
        let slots = |longest| match Config::request((128 << 10, 128), Duration::ZERO, longest) {
            MemoryRequest::Slots(slots) => (slots.frame_size, slots.frames(), slots.bytes()),
            MemoryRequest::Blocks(_) => panic!("blocks"),
        };
        assert_eq!(slots(USUAL), (2048, Some(8192), Some(16 << 20)));
        assert_eq!(slots(96), (256, Some(65_536), Some(16 << 20)));
        assert_eq!(slots(0).0, 256);
        let blocks = Config::request((128 << 10, 128), Duration::from_millis(83), USUAL);
        assert!(matches!(blocks, MemoryRequest::Blocks(RingRequest { retire_ms: 83, .. })));
    }

    #[test]
    fn few_packets_need_little_memory() {
        let shape = |query: &str, packets, rings| {
            let spec = format!("packet:a{query}").parse().unwrap();
            let config = Config::parse(
                &spec,
                &OpenOptions::default().internal(ProgramOptions::default().packets(packets)),
            )
            .unwrap();
            (config.shape(rings, USUAL), config.excluded(config.shape(rings, USUAL)))
        };
        let small = (128 << 10, 4);
        for packets in [0, 1, 4] {
            assert_eq!(shape("", packets, 5), (small, small));
        }
        assert_eq!(shape("", 10, 5).0, (128 << 10, 10));
        assert_eq!(shape("", 100, 5).0, (128 << 10, 64));
        let few = OpenOptions::default().internal(ProgramOptions::default().packets(10));
        let few = Config::parse(&"a".parse().unwrap(), &few).unwrap();
        assert_eq!([few.retire(10), few.retire(8)], [RETIRE, LONGEST_RETIRE]);
        // Never more than without a count.
        for (packets, rings) in [(1000, 5), (1000, 1000), (u64::MAX, 5), (u64::MAX, 1000)] {
            let (ring, excluded) = shape("", packets, rings);
            let (most, least) = (parse("a").unwrap().shape(rings, USUAL), (128 << 10, 16));
            assert!(ring.0 * ring.1 <= most.0 * most.1, "{ring:?}");
            assert!(ring.0 * ring.1 >= packets.min(200) as usize * FRAME && excluded <= least);
        }
        assert_eq!(shape("", u64::MAX, 5).0, parse("a").unwrap().shape(5, USUAL));
        // An explicit size applies.
        assert_eq!(shape("?ring=16Mi", 1, 5).0, parse("a?ring=16Mi").unwrap().shape(5, USUAL));
    }

    #[test]
    fn short_times_have_many_blocks() {
        let shape = |text: &str| parse(text).unwrap().shape(1, USUAL);
        assert_eq!(shape("packet:a?retire=1s"), (1 << 20, 16));
        assert_eq!(shape("packet:a?retire=20ms"), (128 << 10, 128));
        assert_eq!(shape("packet:a?retire=1ms"), (128 << 10, 128));
        let tiny = parse("packet:a?ring=64Ki").unwrap();
        assert_eq!(tiny.shape(1, USUAL), (16 << 10, 4));
        assert_eq!(tiny.excluded(tiny.shape(1, USUAL)), tiny.shape(1, USUAL));
    }

    #[test]
    fn rings_shrink_to_the_smallest_and_no_further() {
        let mut shape = (1 << 20, 32);
        while let Some(next) = smaller(shape) {
            assert!(next.0 * next.1 < shape.0 * shape.1);
            shape = next;
        }
        assert_eq!(shape, (page_size(), FEWEST_BLOCKS));
    }
}
