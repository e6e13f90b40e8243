//! Measured figures: rows of schema `wirelane.bench/1`.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

/// One figure, measured several times.
#[derive(Clone, Debug)]
pub struct FigureRow {
    /// Which suite it belongs to.
    pub suite: &'static str,
    /// The measured case.
    pub case: &'static str,
    /// The other program that was measured; `None` for Wirelane.
    pub peer: Option<&'static str>,
    /// Under which conditions.
    pub params: Params,
    /// Which figure, such as `ns_per_packet`.
    pub metric: &'static str,
    /// Its unit, such as `ns`; `1` for a plain number.
    pub unit: &'static str,
    /// One value per round.
    pub samples: Vec<f64>,
    /// The figure that a paper published for it.
    pub source: Option<PublishedFigure>,
}

impl FigureRow {
    /// The same with the figure that a paper published for it.
    #[must_use]
    pub fn with_source(self, source: Option<PublishedFigure>) -> Self {
        Self { source, ..self }
    }

    /// Smallest, median and largest sample; `None` without any.
    pub fn summary(&self) -> Option<[f64; 3]> {
        summary(&self.samples)
    }
}

/// The common properties of several rows.
#[derive(Clone, Debug)]
pub struct RowSubject {
    /// Which suite it belongs to.
    pub suite: &'static str,
    /// The measured case.
    pub case: &'static str,
    /// The other program that is measured; `None` for Wirelane.
    pub peer: Option<&'static str>,
    /// Under which conditions.
    pub params: Params,
}

impl RowSubject {
    /// The row of a metric, which has its usual unit.
    pub fn row(&self, metric: &'static str, samples: Vec<f64>) -> FigureRow {
        let Self { suite, case, peer, params } = self.clone();
        FigureRow { suite, case, peer, params, metric, unit: unit(metric), samples, source: None }
    }
}

/// The unit of a metric, by its name.
pub fn unit(metric: &str) -> &'static str {
    match metric {
        "bits_per_s" => "bit/s",
        "bytes_of_file" => "B",
        _ if metric.ends_with("bytes_per_s") => "B/s",
        _ if metric.ends_with("_per_s") => "1/s",
        _ if metric.ends_with("_ms") => "ms",
        _ if metric.starts_with("cpu_s_per_gb") => "s",
        _ if metric.starts_with("cycles_") => "cycles",
        _ if metric.split('_').any(|word| word == "ns") => "ns",
        _ => "1",
    }
}

/// Smallest, median and largest of some samples; `None` without any.
pub(super) fn summary(samples: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some([min, (lower + upper) / 2.0, max])
}

/// The median of some samples; `None` without any.
pub(super) fn median(samples: &[f64]) -> Option<f64> {
    summary(samples).map(|[_, median, _]| median)
}

/// From this number of samples, the median alone decides.
pub(super) const ENOUGH: usize = 5;

/// The verdict of samples, where `says` gives the verdict of a value. With [`ENOUGH`] samples the
/// median decides. Fewer samples, at least two, must be unanimous, even if their range is extended
/// by twice its width on either side. `None` if they are not.
pub(super) fn told<T: PartialEq>(samples: &[f64], says: impl Fn(f64) -> T) -> Option<T> {
    let [least, median, most] = summary(samples)?;
    let (spread, said) = (2.0 * (most - least), says(median));
    let is_clear = samples.len() > 1
        && [least - spread, most + spread].into_iter().all(|value| says(value) == said);
    (samples.len() >= ENOUGH || is_clear).then_some(said)
}

impl Serialize for FigureRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let summary = self.summary();
        let mut row = serializer.serialize_struct("Row", 13)?;
        row.serialize_field("suite", self.suite)?;
        row.serialize_field("case", self.case)?;
        row.serialize_field("peer", &self.peer)?;
        row.serialize_field("params", &self.params)?;
        row.serialize_field("metric", self.metric)?;
        row.serialize_field("unit", self.unit)?;
        row.serialize_field("median", &summary.map(|[_, median, _]| median))?;
        row.serialize_field("min", &summary.map(|[min, ..]| min))?;
        row.serialize_field("max", &summary.map(|[.., max]| max))?;
        row.serialize_field("samples", &self.samples.len())?;
        row.serialize_field("values", &self.samples)?;
        row.serialize_field("better", &Better::of(self.metric))?;
        row.serialize_field("source", &self.source)?;
        row.end()
    }
}

/// Whether a lower or a higher figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Costs: times, locks, losses.
    Lower,
    /// Rates and savings.
    Higher,
}

impl Better {
    /// Of this metric; `None` if neither is better.
    pub fn of(metric: &str) -> Option<Self> {
        // The sender's rate is a condition rather than a result.
        if metric == "offered_per_s" {
            return None;
        }
        // Savings, tested before times: both have `ns` in their names.
        let is_saved = metric.contains("_under_") && !metric.ends_with("_under_load");
        if is_saved
            || metric.ends_with("_per_s")
            || metric.starts_with("speedup")
            || metric.ends_with("efficiency")
        {
            return Some(Self::Higher);
        }
        let costs = [
            "ns_",
            "cycles_",
            "cost_",
            "cpu_",
            "user_",
            "system_",
            "locks_",
            "cas_retries_",
            "lost_",
            "latency_",
            "error_",
        ];
        let is_cost = costs.iter().any(|cost| metric.starts_with(cost)) || metric == "budget_share";
        is_cost.then_some(Self::Lower)
    }
}

/// The conditions of a row, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(pub Vec<(&'static str, Param)>);

impl Params {
    /// These, and after them others.
    #[must_use]
    pub fn and(mut self, others: impl IntoIterator<Item = (&'static str, Param)>) -> Self {
        self.0.extend(others);
        self
    }

    /// The value of this condition.
    pub fn get(&self, name: &str) -> Option<&Param> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Whether this condition is among them. Its value is compared as text.
    pub fn has(&self, (name, value): (&str, &str)) -> bool {
        self.0.iter().any(|(own, found)| *own == name && found.to_string() == value)
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Conditions, in order: `params![port = "packet", size = 64]`.
macro_rules! params {
    ($($name:ident = $value:expr),* $(,)?) => {
        $crate::row::Params(vec![$((stringify!($name), $crate::row::Param::from($value))),*])
    };
}
pub(crate) use params;

/// The value of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Param {
    /// A count or size.
    Number(u64),
    /// Whether something holds.
    Flag(bool),
    /// A fixed name.
    Text(&'static str),
    /// A name found at run time.
    Name(String),
}

impl From<&'static str> for Param {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

impl From<String> for Param {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<u64> for Param {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Param {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<bool> for Param {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl std::fmt::Display for Param {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Flag(value) => f.write_str(if *value { "yes" } else { "no" }),
            Self::Text(value) => f.write_str(value),
            Self::Name(value) => f.write_str(value),
        }
    }
}

/// A figure that a source published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedFigure {
    /// Number of the source document.
    pub document: &'static str,
    /// Its figure.
    pub value: f64,
    /// Its unit, which is the unit of the row.
    pub unit: &'static str,
    /// Whether it is computed from figures of the source.
    pub derived: bool,
}

/// The paper behind a [`PublishedFigure::document`].
pub fn paper(document: &str) -> &'static str {
    match document {
        "000" => "Multiqueue support for bpf (FreeBSD, 2011)",
        "001" => "AF_XDP, zero-copy support (Linux, 2018)",
        "002" => "Kernel interfaces for multiqueue aware socket (Linux, 2010)",
        "003" => "GSO for FreeBSD (2014)",
        "004" => "Qdisc layer: fast enough for 10G wirespeed? (Linux, 2014)",
        _ => "an unknown paper",
    }
}

/// A case that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedCase {
    /// Which suite it belongs to.
    pub suite: &'static str,
    /// The missing case.
    pub case: &'static str,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn row(samples: &[f64]) -> FigureRow {
        FigureRow {
            suite: "qdisc",
            case: "lockless",
            peer: None,
            params: Params(vec![
                ("producers", Param::Number(2)),
                ("bypass", Param::Flag(false)),
                ("cores", Param::Text("two")),
            ]),
            metric: "ns_per_packet",
            unit: "ns",
            samples: samples.to_vec(),
            source: Some(PublishedFigure {
                document: "004",
                value: 58.98,
                unit: "ns",
                derived: false,
            }),
        }
    }

    #[test]
    fn median_is_the_middle() {
        assert_eq!(row(&[3.0, 1.0, 2.0]).summary(), Some([1.0, 2.0, 3.0]));
        assert_eq!(row(&[4.0, 1.0, 2.0, 3.0]).summary(), Some([1.0, 2.5, 4.0]));
        assert_eq!(row(&[]).summary(), None);
    }

    #[test]
    fn rows_follow_the_schema() {
        let expected = json!({
            "suite": "qdisc", "case": "lockless", "peer": null,
            "params": { "producers": 2, "bypass": false, "cores": "two" },
            "metric": "ns_per_packet", "unit": "ns",
            "median": 3.1, "min": 3.0, "max": 3.4, "samples": 3,
            "values": [3.1, 3.4, 3.0], "better": "lower",
            "source": { "document": "004", "value": 58.98, "unit": "ns", "derived": false },
        });
        assert_eq!(serde_json::to_value(row(&[3.1, 3.4, 3.0])).unwrap(), expected);
        let empty = serde_json::to_value(row(&[])).unwrap();
        assert_eq!((&empty["median"], &empty["samples"]), (&Value::Null, &json!(0)));
    }

    #[test]
    fn units_go_by_the_metric() {
        for (metric, expected) in [
            ("packets_per_s", "1/s"),
            ("plain_bytes_per_s", "B/s"),
            ("sender_cpu_ns_per_packet", "ns"),
            ("latency_p50_ns", "ns"),
            ("control_wait_max_ms", "ms"),
            ("cpu_s_per_gb_sender", "s"),
            ("cycles_per_pair", "cycles"),
            ("speedup_per_cpu", "1"),
            ("packets_received", "1"),
        ] {
            assert_eq!(unit(metric), expected, "{metric}");
        }
    }

    #[test]
    fn better_goes_by_the_metric() {
        for metric in [
            "ns_per_packet",
            "cycles_per_element",
            "locks_per_packet",
            "cpu_ns_per_packet_under_load",
        ] {
            assert_eq!(Better::of(metric), Some(Better::Lower), "{metric}");
        }
        for metric in
            ["packets_per_s", "bits_per_s", "ns_under_fifo", "speedup_per_cpu", "cpu_efficiency"]
        {
            assert_eq!(Better::of(metric), Some(Better::Higher), "{metric}");
        }
        assert_eq!(Better::of("bypassed_share"), None);
        assert_eq!(Better::of("offered_per_s"), None);
    }
}
