//! The packets to send: files, or packets that are described.

use std::sync::Arc;

use wirelane::halt::Halt;
use wirelane::{Error, Result};
use wirelane_gen::{Generator, PacketSource, Rate, Stream, ThreadShare};
use wirelane_send::replay::{Replay, ReplayLane};

use super::arguments::SendArgs;
use super::flows;

/// The default rate of generated packets, harmless everywhere.
const DEFAULT_RATE: Rate = Rate::Packets(1000.0);

/// The packets to send.
pub(super) enum SendContent {
    /// Files, and the part of them that each thread sends.
    Files(Box<Replay>, Vec<Option<ReplayLane>>),
    /// Generated packets.
    Streams(Arc<[Stream]>, Vec<String>),
}

impl SendContent {
    /// Opens the packets that `args` name, for `lanes` sending threads and a link of `link` bits
    /// per second.
    ///
    /// # Errors
    /// A file cannot be read, or holds nothing that can be sent; there is nothing to send.
    pub(super) fn open(
        args: &SendArgs,
        link: Option<u64>,
        lanes: u32,
        halt: &Halt,
    ) -> Result<Self> {
        if !args.files.is_empty() {
            return Self::files(args, link, lanes, halt);
        }
        if let Some(option) = args.replay.given() {
            return Err(Error::usage(option, "it is about files, and none is named")
                .help("name capture files to replay"));
        }
        let (mut streams, notes) = match &args.flows {
            Some(path) => flows::read(path, args)?,
            None => (recipes(args)?, Vec::new()),
        };
        if streams.is_empty() {
            return Err(Error::usage("what to send", "nothing was named")
                .help("name capture files, or describe packets with --packet or --flows"));
        }
        for stream in &mut streams {
            let rate = if args.flows.is_some() { "--flows" } else { "--rate" };
            stream.resolve(link).map_err(|error| Error::usage(rate, error.to_string()))?;
        }
        Ok(Self::Streams(streams.into(), notes))
    }

    fn files(args: &SendArgs, link: Option<u64>, lanes: u32, halt: &Halt) -> Result<Self> {
        let rate = if args.pace.top_speed { Some(Rate::Max) } else { args.pace.rate };
        let config = args.replay.config(args.files.clone(), rate, link, &args.rewrite, halt)?;
        let mut replay = Replay::open(&config, lanes)?;
        let lanes = replay.take_lanes().into_iter().map(Some).collect();
        Ok(Self::Files(Box::new(replay), lanes))
    }

    /// The packets of one thread.
    ///
    /// # Errors
    /// The packets cannot be sent by several threads.
    pub(super) fn source(&mut self, lane: ThreadShare) -> Result<Box<dyn PacketSource>> {
        match self {
            Self::Files(_, lanes) => {
                let own = lanes.get_mut(lane.index as usize).and_then(Option::take);
                let missing = || Error::failed("files", "there are more threads than parts");
                Ok(Box::new(own.ok_or_else(missing)?))
            }
            Self::Streams(streams, _) => {
                Ok(Box::new(Generator::new(Arc::clone(streams), lane, None)?))
            }
        }
    }

    /// The streams, if packets are generated.
    pub(super) fn streams(&self) -> Option<&[Stream]> {
        match self {
            Self::Files(..) => None,
            Self::Streams(streams, _) => Some(streams),
        }
    }

    /// The number of packets, if known.
    pub(super) fn packets(&self) -> Option<u64> {
        match self {
            Self::Files(replay, _) => replay.packets(),
            Self::Streams(streams, _) => {
                let counts = streams.iter().map(|stream| stream.count);
                counts.sum()
            }
        }
    }

    /// Notes on the files or streams.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Files(replay, _) => replay.report().notes(),
            Self::Streams(_, notes) => notes.clone(),
        }
    }
}

/// The streams of `--packet`. They share the rate.
fn recipes(args: &SendArgs) -> Result<Vec<Stream>> {
    let all = args.packet.len() as f64;
    let rate = match args.pace.rate.unwrap_or(DEFAULT_RATE) {
        _ if args.pace.top_speed => Rate::Max,
        Rate::Max => Rate::Max,
        Rate::Packets(rate) => Rate::Packets(rate / all),
        Rate::Bits(rate) => Rate::Bits(rate / all),
        Rate::Share(share) => Rate::Share(share / all),
    };
    let stream = |recipe: &wirelane_gen::Recipe| {
        let name = recipe.to_string();
        let stream = Stream::new(name.clone(), recipe, args.size.as_ref(), 0);
        let stream = stream.map_err(|error| {
            Error::usage(format!("--packet '{name}'"), error.to_string())
                .help("name layers from the outermost on, as in 'ipv4 udp'")
        })?;
        Ok(stream.rate(rate))
    };
    args.packet.iter().map(stream).collect()
}
