//! What is measured: the loops behind `wirelane bench` and `cargo bench`, as functions that
//! return plain numbers.

pub mod ring;
