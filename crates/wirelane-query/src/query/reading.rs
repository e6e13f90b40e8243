//! Amounts that a query read and skipped.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;

/// Sums of the counters of reading operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadingSums {
    /// Files that names of directories did not exclude, capture files, and directories of `wirelane
    /// record`.
    pub(crate) files: usize,
    /// Bytes of data, without footers.
    pub(crate) bytes: usize,
    /// Row groups of these files.
    pub(crate) groups: usize,
    /// Row groups that statistics, Bloom filters, dynamic filters or a limit excluded.
    pub(crate) skipped: usize,
    /// Extents of directories of `wirelane record`.
    pub(crate) extents: usize,
    /// Extents that an index did not exclude.
    pub(crate) extents_read: usize,
}

impl ReadingSums {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut reading = Self::default();
        let mut files = HashSet::new();
        reading.add(plan, &mut files);
        reading.files += files.len();
        reading
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>, files: &mut HashSet<String>) {
        if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
            && let Some(config) = scan.data_source().downcast_ref::<FileScanConfig>()
        {
            let all = config.file_groups.iter().flat_map(|group| group.files());
            files.extend(all.map(|file| file.object_meta.location.to_string()));
        }
        let metrics = plan.metrics().into_iter();
        for metric in metrics.flat_map(|set| set.iter().cloned().collect::<Vec<_>>()) {
            match metric.value() {
                MetricValue::Count { name, count } if name == "bytes_scanned" => {
                    self.bytes += count.value();
                }
                MetricValue::Count { name, count } if name == "packet_files" => {
                    self.files += count.value();
                }
                MetricValue::Count { name, count } if name == "extents" => {
                    self.extents += count.value();
                }
                MetricValue::Count { name, count } if name == "extents_read" => {
                    self.extents_read += count.value();
                }
                MetricValue::Count { name, count }
                    if name == "row_groups_pruned_dynamic_filter" =>
                {
                    self.skipped += count.value();
                }
                MetricValue::PruningMetrics { name, pruning_metrics } => match name.as_ref() {
                    "row_groups_pruned_statistics" => {
                        self.groups += pruning_metrics.pruned() + pruning_metrics.matched();
                        self.skipped += pruning_metrics.pruned();
                    }
                    "row_groups_pruned_bloom_filter" | "limit_pruned_row_groups" => {
                        self.skipped += pruning_metrics.pruned();
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        plan.children().into_iter().for_each(|child| self.add(child, files));
    }
}

impl fmt::Display for ReadingSums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, bytes, groups, skipped, extents, extents_read } = self;
        let noun = if *files == 1 { "file" } else { "files" };
        write!(f, "{files} {noun}, {bytes} bytes read")?;
        if *groups > 0 {
            write!(f, ", {skipped} of {groups} row groups skipped")?;
        }
        if *extents > 0 {
            write!(f, ", {extents_read} of {extents} extents read")?;
        }
        Ok(())
    }
}
