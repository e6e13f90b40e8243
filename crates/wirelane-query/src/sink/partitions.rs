//! One open file for each hour in which rows began.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wirelane::Result;

use super::encoders::Encoders;
use super::layout;
use super::parquet_file::ParquetFile;
use super::rows::PendingRows;

/// Most open files: a capture of years has many hours.
const MOST: usize = 8;

/// A complete file.
pub(crate) struct FinishedFile {
    pub(crate) path: String,
    pub(crate) bytes: Bytes,
    pub(crate) rows: u64,
}

/// The open files.
pub(crate) struct Partitions<R: PendingRows> {
    /// Empty rows, the template of new files.
    rows: R,
    encoders: Encoders,
    host: String,
    size: usize,
    rotate: Duration,
    /// Files closed so far.
    number: u64,
    open: BTreeMap<u64, OpenPartition<R>>,
}

struct OpenPartition<R: PendingRows> {
    file: ParquetFile<R>,
    since: Instant,
    /// The earliest start of its rows.
    start: u64,
}

impl<R: PendingRows> Partitions<R> {
    /// Files of about `size` bytes with the columns of `rows`. A file ends `rotate` after its first
    /// row was added.
    pub(crate) fn new(rows: R, host: &str, size: usize, rotate: Duration) -> Result<Self> {
        let (host, encoders) = (layout::clean(host), Encoders::start()?);
        Ok(Self { rows, encoders, host, size, rotate, number: 0, open: BTreeMap::new() })
    }

    /// Adds rows of an hour; `done` takes files that are complete.
    pub(crate) fn add(
        &mut self,
        part: R::Part,
        now: impl FnOnce() -> Instant,
        done: &mut impl FnMut(FinishedFile),
    ) -> Result<()> {
        let start = R::start(&part);
        let hour = layout::hour_of(start);
        if !self.open.contains_key(&hour) && self.open.len() >= MOST {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.since).map(|it| *it.0);
            self.close(oldest.into_iter().collect(), done)?;
        }
        let open = match self.open.entry(hour) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(OpenPartition {
                file: ParquetFile::new(&self.rows)?,
                since: now(),
                start,
            }),
        };
        open.start = open.start.min(start);
        open.file.add(part, &self.encoders)?;
        if open.file.size() >= self.size { self.close(vec![hour], done) } else { Ok(()) }
    }

    /// Ends files that are old enough.
    pub(crate) fn close_old(
        &mut self,
        now: Instant,
        done: &mut impl FnMut(FinishedFile),
    ) -> Result<()> {
        let is_old =
            |open: &OpenPartition<R>| now.saturating_duration_since(open.since) >= self.rotate;
        let old = self.open.iter().filter(|(_, open)| is_old(open)).map(|(hour, _)| *hour);
        self.close(old.collect(), done)
    }

    /// Ends all files.
    pub(crate) fn close_all(&mut self, done: &mut impl FnMut(FinishedFile)) -> Result<()> {
        self.close(self.open.keys().copied().collect(), done)
    }

    fn close(&mut self, hours: Vec<u64>, done: &mut impl FnMut(FinishedFile)) -> Result<()> {
        for hour in hours {
            let Some(open) = self.open.remove(&hour) else { continue };
            let path = layout::path(R::KIND.name, hour, &self.host, open.start, self.number);
            self.number += 1;
            let rows = open.file.rows();
            done(FinishedFile { path, bytes: open.file.finish(&self.encoders)?, rows });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wirelane_flow::{Flow, Half};

    use super::*;
    use crate::sink::rows::FlowRows;

    const HOUR: u64 = 3_600_000_000_000;

    fn partitions(size: usize, rotate: Duration) -> Partitions<FlowRows> {
        Partitions::new(FlowRows::default(), "a", size, rotate).unwrap()
    }

    fn flow(start: u64) -> Flow {
        Flow { forward: Half { packets: 1, start, ..Half::default() }, ..Flow::default() }
    }

    #[test]
    fn each_hour_has_its_file() {
        let mut partitions = partitions(1 << 20, Duration::from_secs(60));
        let (now, mut files) = (Instant::now(), Vec::new());
        let mut done = |file: FinishedFile| files.push((file.path, file.rows));
        for start in [5, HOUR + 1, 7, HOUR + 2, 9] {
            partitions.add(flow(start), || now, &mut done).unwrap();
        }
        partitions.close_old(now + Duration::from_secs(59), &mut done).unwrap();
        partitions.close_old(now + Duration::from_secs(60), &mut done).unwrap();
        partitions.close_all(&mut done).unwrap();
        let found: Vec<_> = files.iter().map(|(path, flows)| (&path[..24], *flows)).collect();
        assert_eq!(
            found,
            [("date=1970-01-01/hour=00/", 3), ("date=1970-01-01/hour=01/", 2)][..]
                .iter()
                .map(|it| (&it.0[..24], it.1))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_file_ends_at_its_size_and_few_grow_at_once() {
        let mut partitions = partitions(1000, Duration::MAX);
        let (now, mut flows) = (Instant::now(), Vec::new());
        for number in 0..100 {
            let mut done = |file: FinishedFile| flows.push(file.rows);
            partitions.add(flow(number), || now, &mut done).unwrap();
        }
        assert!(flows.len() >= 4 && flows.iter().all(|count| *count <= 25), "{flows:?}");
        for number in 0..20 {
            let mut done = |file: FinishedFile| flows.push(file.rows);
            partitions.add(flow(number * HOUR), || now, &mut done).unwrap();
            assert!(partitions.open.len() <= MOST);
        }
        partitions.close_all(&mut |file: FinishedFile| flows.push(file.rows)).unwrap();
        assert_eq!(flows.iter().sum::<u64>(), 120);
    }
}
