//! Traffic of streams from packet descriptions or a flow file.

use std::sync::Arc;

use wirelane::{Error, Result};
use wirelane_gen::signature::SignatureKey;
use wirelane_gen::{Generator, PacketSource, Rate, Sizes, Stream, ThreadShare};

use super::traffic::{Traffic, TrialLoad};

/// Streams that divide the rate of a load in proportion to their own rates. Their templates reserve
/// room for a [signature](wirelane_gen::signature).
#[derive(Clone, Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    /// The share of each stream in all packets.
    shares: Vec<f64>,
}

impl Streams {
    /// Traffic of these streams. If one of them has no rate in packets, all have equal shares.
    ///
    /// # Errors
    /// `streams` is empty, or a template reserves no room for a signature.
    pub fn new(streams: Vec<Stream>) -> Result<Self> {
        let wrong = |cause: String| Error::usage("streams", cause);
        if streams.is_empty() {
            return Err(wrong("there is nothing to send".into()));
        }
        let unsigned = |stream: &&Stream| stream.template.reserved() < wirelane_gen::signature::LEN;
        if let Some(stream) = streams.iter().find(unsigned) {
            return Err(wrong(format!("stream '{}' has no room for a signature", stream.name)));
        }
        let rates: Option<Vec<f64>> = streams.iter().map(Stream::packets_per_second).collect();
        let rates = rates.unwrap_or_else(|| vec![1.0; streams.len()]);
        let all: f64 = rates.iter().sum();
        let shares = rates.iter().map(|rate| rate / all).collect();
        Ok(Self { streams, shares })
    }

    /// The number of packets of each stream.
    fn counts(&self, load: &TrialLoad) -> impl Iterator<Item = u64> {
        let all = load.packets() as f64;
        self.shares.iter().map(move |share| (all * share).round().max(1.0) as u64)
    }
}

impl Traffic for Streams {
    fn streams(&self) -> Vec<String> {
        self.streams.iter().map(|stream| stream.name.clone()).collect()
    }

    fn packets(&self, load: &TrialLoad, _: ThreadShare) -> Vec<u64> {
        // The generator distributes packets to lanes, so this bound is the total of all lanes.
        self.counts(load).collect()
    }

    fn source(
        &self,
        load: &TrialLoad,
        lane: ThreadShare,
        key: SignatureKey,
    ) -> Result<Box<dyn PacketSource>> {
        let failed = |cause: String| Error::usage("streams", cause);
        let mut streams = Vec::new();
        for ((stream, share), count) in self.streams.iter().zip(&self.shares).zip(self.counts(load))
        {
            let mut stream = stream.clone();
            if let Some(len) = load.len {
                let least = stream.template.min_len();
                let name = &stream.name;
                let short =
                    || failed(format!("'{name}' has packets of at least {least} bytes, not {len}"));
                let len = u16::try_from(len).ok().filter(|len| usize::from(*len) >= least);
                let lengths = Sizes::fixed(len.ok_or_else(short)?).lengths(least);
                stream.lengths = lengths.map_err(|error| failed(error.to_string()))?;
            }
            let rate = load.rate * share;
            stream.rate = if rate.is_finite() { Rate::Packets(rate) } else { Rate::Max };
            // The load determines the length of a trial; the limits of the streams do not apply.
            (stream.count, stream.duration, stream.start, stream.burst) =
                (Some(count), None, 0, None);
            streams.push(stream);
        }
        let generator = Generator::new(Arc::from(streams), lane, Some(key));
        Ok(Box::new(generator.map_err(|error| failed(error.to_string()))?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use wirelane_gen::Signature;
    use wirelane_gen::signature::LEN;

    fn stream(name: &str, rate: Rate, reserved: usize) -> Stream {
        let recipe = "udp dst=9".parse().unwrap();
        Stream::new(name, &recipe, None, reserved).unwrap().rate(rate)
    }

    #[test]
    fn streams_keep_their_shares_at_any_rate() {
        let own = [stream("one", Rate::Packets(1.0), LEN), stream("two", Rate::Packets(3.0), LEN)];
        let traffic = Streams::new(own.into()).unwrap();
        for (rate, len) in [(400.0, None), (f64::INFINITY, Some(1000))] {
            let duration = Duration::from_secs(1);
            let load = TrialLoad { len, rate, duration, packets: Some(400) };
            assert_eq!(traffic.packets(&load, ThreadShare::ALL), [100, 300]);
            let mut source = traffic.source(&load, ThreadShare::ALL, SignatureKey(3)).unwrap();
            let mut counts = [0; 2];
            while let Some(departure) = source.next().unwrap() {
                assert_eq!(departure.len, len.unwrap_or(60));
                let mut packet = vec![0; departure.len];
                source.write(&mut packet, 5);
                let signature = Signature::parse(SignatureKey(3), &packet).unwrap();
                let count = &mut counts[signature.flow as usize];
                assert_eq!((signature.sequence, signature.flow), (*count, departure.stream));
                *count += 1;
            }
            assert_eq!(counts, [100, 300]);
        }
    }

    #[test]
    fn streams_must_have_room() {
        assert!(Streams::new(Vec::new()).is_err());
        assert!(Streams::new(vec![stream("bare", Rate::Max, 0)]).is_err());
        let traffic = Streams::new(vec![stream("one", Rate::Max, LEN)]).unwrap();
        let load =
            TrialLoad { len: Some(59), rate: 1.0, duration: Duration::from_secs(1), packets: None };
        assert!(traffic.source(&load, ThreadShare::ALL, SignatureKey(0)).is_err());
    }
}
