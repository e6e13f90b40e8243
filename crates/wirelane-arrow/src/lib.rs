//! Flows and packets as columns of Arrow: what Parquet, SQL and Python see.

mod flows;
mod packets;

pub use self::flows::Flows;
pub use self::packets::Packets;
