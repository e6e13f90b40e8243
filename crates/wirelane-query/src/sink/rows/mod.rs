//! Kinds of rows: flows and packets become files and streams in the same way.

mod flows;
mod kind;
mod packets;

pub(crate) use self::flows::FlowRows;
pub(crate) use self::kind::{PendingRows, RowStorage};
pub(crate) use self::packets::{PacketPart, PacketRows};
