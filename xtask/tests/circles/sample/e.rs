pub use crate::facade::f;

pub struct Epsilon;
