use super::Beta;

pub const ALPHA: Beta = Beta;
