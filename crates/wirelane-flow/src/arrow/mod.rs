//! Flows and packets as columns of Arrow, which Parquet, SQL and Python read.

mod flows;
mod interfaces;
mod packets;

pub use self::flows::Flows;
pub use self::interfaces::Interfaces;
pub use self::packets::Packets;
