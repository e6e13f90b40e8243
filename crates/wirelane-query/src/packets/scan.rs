//! The operator that makes rows of packets: a partition for each capture file, and one for all stores.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{SchemaRef, SortOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use wirelane::Result as Outcome;
use wirelane_arrow::Packets;
use wirelane_os::halt::Halt;
use wirelane_store::{Directory, Plan, Report};

use super::ask::Ask;
use super::asked::Asked;
use super::leftovers::Leftovers;
use super::rows::Rows;
use super::sieve::Sieve;
use super::stream::{Outlet, stream};
use super::{file, store};

/// What packets are put in order with, if memory is no concern.
const MOST_MEMORY: usize = 256 << 20;

/// What is read.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) files: Vec<PathBuf>,
    pub(super) stores: Vec<PathBuf>,
}

/// The operator.
#[derive(Debug)]
pub(crate) struct Scan {
    places: Arc<Places>,
    asked: Arc<Asked>,
    columns: Arc<[String]>,
    limit: Option<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl Scan {
    pub(super) fn new(
        places: Arc<Places>,
        asked: Asked,
        columns: Vec<String>,
        limit: Option<usize>,
    ) -> Result<Self, DataFusionError> {
        let schema = Packets::of(&columns)?.schema();
        let partitions = places.files.len() + usize::from(!places.stores.is_empty());
        let mut properties = EquivalenceProperties::new(Arc::clone(&schema));
        if let Some((at, field)) =
            schema.column_with_name("time").filter(|_| places.files.is_empty())
        {
            let column = Arc::new(Column::new(field.name(), at));
            let ascending = SortOptions { descending: false, nulls_first: false };
            properties.add_ordering([PhysicalSortExpr::new(column, ascending)]);
        }
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let (emission, bounds) = (EmissionType::Incremental, Boundedness::Bounded);
        let properties = PlanProperties::new(properties, partitioning, emission, bounds);
        Ok(Self {
            places,
            asked: Arc::new(asked),
            columns: columns.into(),
            limit,
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Everything that it reads.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.places.files.iter().chain(&self.places.stores).map(PathBuf::as_path)
    }
}

/// What a partition needs on its thread.
struct Work {
    places: Arc<Places>,
    asked: Arc<Asked>,
    columns: Arc<[String]>,
    limit: Option<usize>,
    memory: usize,
    leftovers: Arc<Leftovers>,
    counts: Counts,
}

struct Counts {
    bytes: Count,
    extents: Count,
    extents_read: Count,
}

impl Counts {
    fn of(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            bytes: counter("bytes_scanned"),
            extents: counter("extents"),
            extents_read: counter("extents_read"),
        }
    }

    fn add(&self, report: &Report) {
        let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        self.bytes.add(number(report.bytes_read));
        self.extents.add(number(report.extents));
        self.extents_read.add(number(report.extents_read));
    }
}

impl Work {
    fn file(&self, path: &Path, outlet: Outlet) -> Outcome<()> {
        let mut rows = Rows::new(&self.columns, self.limit, outlet)?;
        let expression = self.asked.ask.as_ref().and_then(Ask::expression);
        let mut sieve = Sieve::new(&self.asked.filters, expression.as_deref())?;
        let bytes = self.counts.bytes.clone();
        file::read(path, &self.asked, &mut sieve, &mut rows, bytes, &self.leftovers)?;
        self.leftovers.unfiltered(sieve.into_unfiltered());
        Ok(())
    }

    fn stores(&self, outlet: Outlet, halt: &Halt) -> Outcome<()> {
        let mut rows = Rows::new(&self.columns, self.limit, outlet)?;
        let stores = self.places.stores.iter().map(|path| store::open(path));
        let stores: Vec<Directory> = stores.collect::<Outcome<_>>()?;
        let Self { asked, memory, leftovers, .. } = self;
        let only_counts = self.columns.is_empty();
        let report =
            store::search(&stores, asked, &mut rows, only_counts, *memory, halt, leftovers)?;
        self.counts.add(&report);
        Ok(())
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "PacketScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion, DataFusionError>,
    ) -> Result<TreeNodeRecursion, DataFusionError> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let file = self.places.files.get(partition).cloned();
        let pool = context.memory_pool();
        let memory = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => (limit / 8).min(MOST_MEMORY),
            _ => MOST_MEMORY,
        };
        let reserved = MemoryConsumer::new("packets in order of time").register(pool);
        if file.is_none() {
            reserved.try_grow(memory)?;
        }
        let leftovers = context.session_config().get_extension::<Leftovers>().unwrap_or_default();
        let work = Work {
            places: Arc::clone(&self.places),
            asked: Arc::clone(&self.asked),
            columns: Arc::clone(&self.columns),
            limit: self.limit,
            memory,
            leftovers,
            counts: Counts::of(&self.metrics, partition),
        };
        let rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        Ok(stream(Arc::clone(&self.schema), rows, move |outlet, halt| {
            // Held until the thread has ended.
            let _reserved = reserved;
            match &file {
                Some(path) => work.file(path, outlet),
                None => work.stores(outlet, halt),
            }
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Places { files, stores } = self.places.as_ref();
        let Asked { from, to, filters, ask } = self.asked.as_ref();
        let columns = self.columns.join(", ");
        write!(
            f,
            "PacketScan: files={}, stores={}, columns=[{columns}]",
            files.len(),
            stores.len()
        )?;
        if let Some(from) = from {
            write!(f, ", from={from}")?;
        }
        if let Some(to) = to {
            write!(f, ", to={to}")?;
        }
        for filter in filters {
            write!(f, ", bpf=[{filter}]")?;
        }
        if let Some(ask) = ask {
            write!(f, ", index=[{}]", Plan::of_keys(&ask.plain_keys()))?;
        }
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}
