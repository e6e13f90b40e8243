//! A crate with three circles, for the test of the test. It is read, never compiled.
mod a;
mod b;
mod c;
mod d;
mod e;
mod facade;
mod test;

pub use a::ALPHA;
pub use b::Beta;
pub use d::Delta;
