use crate::{a::ALPHA as FIRST};

pub fn gamma() -> usize {
    std::mem::size_of_val(&FIRST)
}
