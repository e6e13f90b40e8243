//! Parameters of a store's search, and errors in its answer.

use std::path::Path;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use wirelane::halt::Halt;
use wirelane::pcap::LINK_TYPE_ETHERNET;
use wirelane::{Error, Result};
use wirelane_store::Directory;
use wirelane_store::query::{Query, Report};

use crate::options;

/// A time: a `datetime` with its time zone, or nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(crate) struct TimeArgument(u64);

impl<'py> FromPyObject<'_, 'py> for TimeArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let module = py.import("datetime")?;
        let class = module.getattr("datetime")?;
        let nanoseconds = if value.is_instance(&class)? {
            if value.call_method0("utcoffset")?.is_none() {
                let text = "a datetime needs its time zone, as in datetime.now(timezone.utc)";
                return Err(PyValueError::new_err(text));
            }
            let utc = module.getattr("timezone")?.getattr("utc")?;
            let since = value.sub(class.call1((1970, 1, 1, 0, 0, 0, 0, utc))?)?;
            let part = |name: &str| since.getattr(name)?.extract::<i64>();
            let seconds = part("days")? * 86_400 + part("seconds")?;
            // pandas has nanoseconds in addition to microseconds.
            let rest = if since.hasattr("nanoseconds")? { part("nanoseconds")? } else { 0 };
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(part("microseconds")? * 1000 + rest)
        } else {
            value.extract::<i64>().map_err(|_| {
                let text = "a time is a datetime with its time zone, or an int: ns since 1970";
                PyTypeError::new_err(text)
            })?
        };
        // Nothing was recorded before 1970.
        Ok(Self(u64::try_from(nanoseconds).unwrap_or(0)))
    }
}

/// The packets to search for.
pub(crate) struct PacketSelection {
    pub(crate) filter: Option<String>,
    pub(crate) start: Option<TimeArgument>,
    pub(crate) end: Option<TimeArgument>,
}

impl PacketSelection {
    /// # Errors
    /// The filter is wrong, or the times contradict each other.
    pub(crate) fn query(&self, halt: &Halt) -> Result<Query> {
        let (from, to) = (self.start.map(|it| it.0), self.end.map(|it| it.0));
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            return Err(Error::usage("time", "the end is not after the start"));
        }
        let filter = self.filter.as_deref().map(options::filter).transpose()?.flatten();
        // Most packets are Ethernet. The report lists errors on other link types.
        if let Some(filter) = &filter
            && let Err(error) = filter.check(LINK_TYPE_ETHERNET)
            && error.span().is_some()
        {
            return Err(error.into());
        }
        Ok(Query::all().from(from).to(to).filter(filter).cancel(halt))
    }

    /// # Errors
    /// A time is given, which only a store can select by.
    pub(crate) fn check_no_time(&self) -> Result<()> {
        if self.start.is_none() && self.end.is_none() {
            return Ok(());
        }
        let cause = "only a directory of `wirelane record` can be searched by time";
        Err(Error::usage("start, end", cause))
    }
}

/// Whether the path is the directory of a store.
pub(crate) fn is_store(path: &Path) -> bool {
    path.join("wirelane.store").exists()
}

/// Opens a store.
///
/// # Errors
/// It is not a store, or cannot be read.
pub(crate) fn open(path: &Path) -> Result<Directory> {
    Directory::open(path).map_err(Error::from)
}

/// The error for parts that could not be read.
pub(crate) fn damage(report: &Report) -> Option<Error> {
    let (first, others) = report.damage.split_first()?;
    let object = format!("{} at byte {}", first.path.display(), first.offset);
    let cause = match others.len() {
        0 => first.what.to_string(),
        1 => format!("{}, and another place is damaged, too", first.what),
        n => format!("{}, and {n} other places are damaged, too", first.what),
    };
    Some(Error::failed(object, cause).help("every readable packet precedes this error"))
}
