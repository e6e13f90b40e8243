use super::Beta;

pub type Delta = Beta;
