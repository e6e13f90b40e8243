//! Flows and packets as columns of Arrow: what Parquet, SQL and Python see.

mod flows;

pub use self::flows::Flows;
