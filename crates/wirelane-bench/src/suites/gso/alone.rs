//! The segmenter alone, without stack, queue and port: a frame of almost 64 KB in warm memory.

use super::case::SUITE;
use crate::report::BenchReport;
use crate::row::{FigureRow, RowSubject, median, params};
use crate::suites::gso::segment::{self, SegmentForm};
use wirelane::frame::Offload;
use wirelane::internal::checksum::Vectors;
use wirelane::internal::segment::SegmentClass;

/// Frames that are segmented for one figure: about half a millisecond. A debug build segments fewer
/// frames because it is slower; its figures have no meaning.
const FRAMES: usize = if cfg!(debug_assertions) { 40 } else { 400 };
/// Figures per case, taken in turns; their median is the sample. An additional figure first warms
/// up.
const TURNS: usize = 5;

/// The classes of frames, by the name of the row's `protocol`, and their payload per segment.
const CLASSES: [(SegmentClass, &str, u16); 6] = [
    (SegmentClass::Tcp4, "tcp4", 1460),
    (SegmentClass::Tcp6, "tcp6", 1440),
    (SegmentClass::Udp4, "udp4", 1472),
    (SegmentClass::Udp6, "udp6", 1452),
    (SegmentClass::Frag4, "frag4", 1480),
    (SegmentClass::Frag6, "frag6", 1448),
];

/// The cost of a segment.
pub(super) struct SegmentCost {
    protocol: &'static str,
    form: &'static str,
    nanoseconds: f64,
}

/// One protocol in one form.
struct SegmentCase {
    protocol: &'static str,
    form: (SegmentForm, &'static str),
    frame: Vec<u8>,
    offload: Offload,
    figures: Vec<f64>,
}

/// One sample per protocol and form, with all checksums complete. The calling thread should have an
/// exclusive CPU.
pub(super) fn measure() -> Vec<SegmentCost> {
    let mut kinds = Vec::new();
    for (class, protocol, size) in CLASSES {
        for form in [(SegmentForm::Copy, "copy"), (SegmentForm::Slices, "slices")] {
            let payload = (44 * usize::from(size)).min(65_000);
            let Ok((frame, offload)) = segment::super_frame(class, payload, size) else { continue };
            kinds.push(SegmentCase { protocol, form, frame, offload, figures: Vec::new() });
        }
    }
    for turn in 0..=TURNS {
        for kind in &mut kinds {
            let figure = segment::segment(&kind.frame, &kind.offload, kind.form.0, FRAMES);
            kind.figures.extend(figure.filter(|_| turn > 0));
        }
    }
    let figures = kinds.into_iter().filter_map(|kind| {
        let nanoseconds = median(&kind.figures)?;
        Some(SegmentCost { protocol: kind.protocol, form: kind.form.1, nanoseconds })
    });
    figures.collect()
}

/// Adds a sample to every row. The first call adds the rows.
pub(super) fn rows(figures: Vec<SegmentCost>, report: &mut BenchReport) {
    for SegmentCost { protocol, form, nanoseconds } in figures {
        let vectors = Vectors::used().as_str();
        let params =
            params![protocol = protocol, form = form, segments = 44_u64, vectors = vectors];
        let subject = RowSubject { suite: SUITE, case: "segment", peer: None, params };
        let row = subject.row("ns_per_segment", vec![nanoseconds]);
        let is_it = |other: &&mut FigureRow| {
            (other.suite, other.case, &other.params) == (row.suite, row.case, &row.params)
        };
        match report.rows.iter_mut().find(is_it) {
            Some(found) => found.samples.push(nanoseconds),
            None => report.rows.push(row),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_every_class_in_both_forms() {
        let mut report = BenchReport::new("test".into());
        rows(measure(), &mut report);
        rows(measure(), &mut report);
        assert_eq!(report.rows.len(), 12);
        assert!(report.rows.iter().all(|row| row.samples.len() == 2 && row.samples[0] > 0.0));
    }
}
