//! Flows and packets as columns of Arrow: what Parquet, SQL and Python see.

mod flows;
mod interfaces;
mod packets;

pub use self::flows::Flows;
pub use self::interfaces::Interfaces;
pub use self::packets::Packets;
