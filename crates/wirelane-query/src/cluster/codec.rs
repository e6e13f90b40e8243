//! Encodes the table `packets` for scheduler and executors: as paths of files, which must be the
//! same on every machine.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::catalog::TableProvider;
use datafusion::common::{TableReference, internal_err};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Extension, LogicalPlan, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::packets::{self, PacketScan, PacketTable};

/// Prefix of Wirelane's messages. Others are Ballista's.
const MAGIC: &[u8] = b"wirelane packets ";

type CodecResult<T> = Result<T, DataFusionError>;

/// From the client to the scheduler.
#[derive(Debug, Default)]
pub(super) struct LogicalCodec(BallistaLogicalExtensionCodec);

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        ctx: &TaskContext,
    ) -> CodecResult<Extension> {
        self.0.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> CodecResult<()> {
        self.0.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> CodecResult<Arc<dyn TableProvider>> {
        match buf.strip_prefix(MAGIC) {
            Some(text) => Ok(Arc::new(PacketTable::decode(text)?)),
            None => self.0.try_decode_table_provider(buf, table, schema, ctx),
        }
    }

    fn try_encode_table_provider(
        &self,
        reference: &TableReference,
        table: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> CodecResult<()> {
        match table.downcast_ref::<PacketTable>() {
            Some(table) => {
                buf.extend_from_slice(MAGIC);
                table.encode(buf)
            }
            None => self.0.try_encode_table_provider(reference, table, buf),
        }
    }

    fn try_decode_file_format(
        &self,
        buf: &[u8],
        ctx: &TaskContext,
    ) -> CodecResult<Arc<dyn FileFormatFactory>> {
        self.0.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(
        &self,
        buf: &mut Vec<u8>,
        node: Arc<dyn FileFormatFactory>,
    ) -> CodecResult<()> {
        self.0.try_encode_file_format(buf, node)
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> CodecResult<Arc<ScalarUDF>> {
        match packets::function(name) {
            Some(function) => Ok(Arc::new(function)),
            None => self.0.try_decode_udf(name, buf),
        }
    }
}

/// From the scheduler to the executors.
#[derive(Debug, Default)]
pub(super) struct Physical(BallistaPhysicalExtensionCodec);

impl PhysicalExtensionCodec for Physical {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> CodecResult<Arc<dyn ExecutionPlan>> {
        match buf.strip_prefix(MAGIC) {
            Some(text) => match inputs {
                [paths] => Ok(Arc::new(PacketScan::decode(text, paths)?)),
                _ => internal_err!("PacketScan has one input"),
            },
            None => self.0.try_decode(buf, inputs, ctx, converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> CodecResult<()> {
        match node.downcast_ref::<PacketScan>() {
            Some(scan) => {
                buf.extend_from_slice(MAGIC);
                scan.encode(buf)
            }
            None => self.0.try_encode(node, buf, converter),
        }
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> CodecResult<Arc<ScalarUDF>> {
        match packets::function(name) {
            Some(function) => Ok(Arc::new(function)),
            None => self.0.try_decode_udf(name, buf),
        }
    }
}
