//! A crate with one circle, for the test of the test. It is read, never compiled.
mod a;
mod b;
mod c;
mod test;

pub use a::ALPHA;
pub use b::Beta;
