//! Items for Wirelane's own programs and bindings: the command, the benchmarks, and the interfaces
//! for C, Python and libpcap. They are not part of the library's public API, and may change in any
//! release. `xtask/tests/` checks that no example uses them.

/// Writes one setter per public field: `Config::default().field(value)`.
///
/// A setter takes the field's type, or a value that converts to it: a `String` from text, an
/// `Option` from its content.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($config:ident: $($field:ident: $type:ty),+ $(,)?) => {
        impl $config {
            $(
                #[doc = concat!(
                    "Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ")."
                )]
                #[must_use]
                pub fn $field(mut self, $field: impl Into<$type>) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}

/// Ports: options and details that the public API hides.
#[cfg(not(loom))]
pub mod port {
    pub use crate::port::program_options::{Forwarding, MemoryShare, ProgramOptions};
}
