//! The engine: its memory limit, and how it reads files.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::FunctionRegistry as _;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use wirelane::Result;

use super::epoch::Epoch;
use super::failure;
use super::hours::Hours;
use crate::packets::Leftovers;
use crate::stores::StoreRegistry;

/// A session without tables. Operators that need more than `memory` bytes spill to `spill`.
pub(crate) fn session(memory: Option<usize>, spill: &Path) -> Result<SessionContext> {
    let memory = memory.unwrap_or_else(half_of_available);
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(StoreRegistry::default()))
        .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
        .with_temp_file_path(spill)
        .build_arc()
        .map_err(failure::of)?;
    let mut config = SessionConfig::new()
        .with_information_schema(true)
        // Footers are read once, when they are checked, and only of files that a query needs.
        .with_collect_statistics(false)
        .with_extension(Arc::new(Leftovers::default()));
    let execution = &mut config.options_mut().execution;
    // Sorts reserve this memory to merge spilled rows: only a share of the whole.
    let share = memory / (8 * execution.target_partitions.max(1));
    execution.sort_spill_reservation_bytes = share.min(execution.sort_spill_reservation_bytes);
    let parquet = &mut config.options_mut().execution.parquet;
    // Rows that do not match are not decoded.
    parquet.pushdown_filters = true;
    parquet.reorder_filters = true;
    let context = SessionContext::new_with_config_rt(config, runtime);
    let mut state = context.state();
    state.register_function_rewrite(Arc::new(Epoch)).map_err(failure::of)?;
    let context = SessionContext::new_with_state(state);
    context.add_optimizer_rule(Arc::new(Hours));
    Ok(context)
}

fn half_of_available() -> usize {
    /// Below this, the engine mostly spills.
    const LEAST: u64 = 64 << 20;
    let half = wirelane_os::memory::room().bytes / 2;
    usize::try_from(half.max(LEAST)).unwrap_or(usize::MAX)
}
