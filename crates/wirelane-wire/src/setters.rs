//! Setters for the configurations of Wirelane's crates.

/// Writes one setter per public field: `Config::default().field(value)`.
///
/// A setter takes the field's type, or a value that converts to it: a `String` from text, an
/// `Option` from its content. The setters of fields after `;` take only the field's type: for
/// numbers, so that a literal needs no suffix.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (
        $config:ident: $($field:ident: $type:ty),* $(,)?
        $(; $($number:ident: $exact:ty),+ $(,)?)?
    ) => {
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
            )*
            $($(
                #[doc = concat!(
                    "Sets [`", stringify!($number), "`](field@Self::", stringify!($number), ")."
                )]
                #[must_use]
                pub fn $number(mut self, $number: $exact) -> Self {
                    self.$number = $number;
                    self
                }
            )+)?
        }
    };
}
