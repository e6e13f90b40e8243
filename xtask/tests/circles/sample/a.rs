use crate::b::Beta;

pub const ALPHA: Beta = Beta;
