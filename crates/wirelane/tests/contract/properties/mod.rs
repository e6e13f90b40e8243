//! The properties. Each is a function of a bed that panics when the property does not hold.

pub(crate) mod drain;
pub(crate) mod forward;
pub(crate) mod hold;
pub(crate) mod info;
pub(crate) mod life;
pub(crate) mod mask;
pub(crate) mod receive;
pub(crate) mod transmit;
