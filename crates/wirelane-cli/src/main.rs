//! The wirelane command.
fn main() {}
