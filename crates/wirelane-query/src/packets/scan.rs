//! The operator that converts packets to rows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{SchemaRef, SortOptions};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, ChildrenPropertiesMode, EmissionType,
};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use serde::{Deserialize, Serialize};
use wirelane::Result as Outcome;
use wirelane::halt::Halt;
use wirelane_flow::arrow::Packets;
use wirelane_store::{Directory, Plan, Report};

use super::ask::Ask;
use super::asked::PacketSelection;
use super::leftovers::Leftovers;
use super::places::{self, Places};
use super::rows::RowBatch;
use super::sieve::LinkFilters;
use super::stream::{BatchSender, stream};
use super::{file, store};

/// Most memory for sorting packets by time.
const MOST_MEMORY: usize = 256 << 20;

/// The operator. Its input has a row for each file or store: a distributed planner splits that
/// input without knowledge of packets.
#[derive(Debug)]
pub(crate) struct PacketScan {
    paths: Arc<dyn ExecutionPlan>,
    message: Arc<ScanParameters>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// The parameters that all partitions share.
#[derive(Debug, Serialize, Deserialize)]
struct ScanParameters {
    asked: PacketSelection,
    columns: Vec<String>,
    limit: Option<usize>,
    /// Whether there are only stores, whose packets are read in order of time.
    is_ordered: bool,
}

impl PacketScan {
    pub(super) fn new(
        places: &Places,
        asked: PacketSelection,
        columns: Vec<String>,
        limit: Option<usize>,
    ) -> Result<Self, DataFusionError> {
        let is_ordered = places.files.is_empty();
        Self::over(places.plan()?, ScanParameters { asked, columns, limit, is_ordered }.into())
    }

    fn over(
        paths: Arc<dyn ExecutionPlan>,
        message: Arc<ScanParameters>,
    ) -> Result<Self, DataFusionError> {
        let schema = Packets::of(&message.columns)?.schema();
        let mut properties = EquivalenceProperties::new(Arc::clone(&schema));
        if let Some((at, field)) = schema.column_with_name("time").filter(|_| message.is_ordered) {
            let column = Arc::new(Column::new(field.name(), at));
            let ascending = SortOptions { descending: false, nulls_first: false };
            properties.add_ordering([PhysicalSortExpr::new(column, ascending)]);
        }
        let partitions = paths.output_partitioning().partition_count();
        let partitioning = Partitioning::UnknownPartitioning(partitions);
        let (emission, bounds) = (EmissionType::Incremental, Boundedness::Bounded);
        let properties = PlanProperties::new(properties, partitioning, emission, bounds).into();
        Ok(Self { paths, message, schema, properties, metrics: ExecutionPlanMetricsSet::new() })
    }
}

#[cfg(feature = "cluster")]
impl PacketScan {
    /// Encodes the scan for another machine, without its input.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) -> Result<(), DataFusionError> {
        serde_json::to_writer(to, self.message.as_ref())
            .map_err(|error| DataFusionError::External(error.into()))
    }

    /// Decodes a scan from another machine.
    pub(crate) fn decode(
        text: &[u8],
        paths: &Arc<dyn ExecutionPlan>,
    ) -> Result<Self, DataFusionError> {
        let message: ScanParameters = serde_json::from_slice(text)
            .map_err(|error| DataFusionError::External(error.into()))?;
        Self::over(Arc::clone(paths), message.into())
    }
}

/// The state of a partition's thread.
struct PartitionWork {
    message: Arc<ScanParameters>,
    memory: usize,
    leftovers: Arc<Leftovers>,
    counts: ScanCounts,
}

struct ScanCounts {
    files: Count,
    bytes: Count,
    extents: Count,
    extents_read: Count,
}

impl ScanCounts {
    fn of(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            files: counter("packet_files"),
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

impl PartitionWork {
    fn run(&self, paths: &[PathBuf], outlet: BatchSender, halt: &Halt) -> Outcome<()> {
        let ScanParameters { asked, columns, limit, .. } = self.message.as_ref();
        let mut rows = RowBatch::new(columns, *limit, outlet)?;
        self.counts.files.add(paths.len());
        let (stores, files): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.is_dir());
        for path in files {
            rows.begin();
            self.file(path, &mut rows)?;
        }
        if stores.is_empty() {
            return Ok(());
        }
        rows.begin();
        let stores = stores.into_iter().map(|path| store::open(path));
        let stores: Vec<Directory> = stores.collect::<Outcome<_>>()?;
        let (memory, leftovers) = (self.memory, &self.leftovers);
        let only_counts = columns.is_empty();
        let report =
            store::search(&stores, asked, &mut rows, only_counts, memory, halt, leftovers)?;
        self.counts.add(&report);
        Ok(())
    }

    fn file(&self, path: &Path, rows: &mut RowBatch) -> Outcome<()> {
        let asked = &self.message.asked;
        let expression = asked.ask.as_ref().and_then(Ask::expression);
        let mut sieve = LinkFilters::new(&asked.filters, expression.as_deref())?;
        let bytes = self.counts.bytes.clone();
        file::read(path, asked, &mut sieve, rows, bytes, &self.leftovers)?;
        self.leftovers.unfiltered(sieve.into_unfiltered());
        Ok(())
    }
}

impl ExecutionPlan for PacketScan {
    fn name(&self) -> &'static str {
        "PacketScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.paths]
    }

    /// The planner must not split files and stores.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion, DataFusionError>,
    ) -> Result<TreeNodeRecursion, DataFusionError> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        match <[_; 1]>::try_from(children) {
            Ok([paths]) => Ok(Arc::new(Self::over(paths, Arc::clone(&self.message))?)),
            Err(_) => internal_err!("PacketScan has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream, DataFusionError> {
        let paths = self.paths.execute(partition, Arc::clone(&context))?;
        let pool = context.memory_pool();
        let memory = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => (limit / 8).min(MOST_MEMORY),
            _ => MOST_MEMORY,
        };
        let reserved = MemoryConsumer::new("packets in order of time").register(pool);
        let told = context.session_config().get_extension::<Leftovers>();
        // An executor reports no `Leftovers`: unreadable data fails the query.
        let is_strict = told.is_none();
        let work = PartitionWork {
            message: Arc::clone(&self.message),
            memory,
            leftovers: told.unwrap_or_default(),
            counts: ScanCounts::of(&self.metrics, partition),
        };
        let rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        Ok(stream(Arc::clone(&self.schema), rows, move |outlet, halt| {
            let paths = places::of(paths)?;
            // Reserved until the work ends.
            if paths.iter().any(|path| path.is_dir()) {
                reserved.try_grow(memory)?;
            }
            work.run(&paths, outlet, halt)
                .map_err(|error| DataFusionError::External(error.into()))?;
            drop(reserved);
            let left = if is_strict { work.leftovers.first() } else { Ok(()) };
            left.map_err(|error| DataFusionError::External(error.into()))
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl DisplayAs for PacketScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScanParameters { asked, columns, limit, .. } = self.message.as_ref();
        let PacketSelection { from, to, filters, ask } = asked;
        write!(f, "PacketScan: columns=[{}]", columns.join(", "))?;
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
        match limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}
