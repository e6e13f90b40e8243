//! The common form of all headers: a view with accessors, and a value with the same fields.

/// Defines the view and the value of a header.
///
/// The view has the `LEN` bytes at fixed offsets and the parts behind them. A field
/// `name: Type = AT` is at offset `AT`: it becomes an accessor of the view and a field of the
/// value, which `parse` reads and `put_fields` writes. A field `name: Type` is a field of the
/// value; its accessor is written by hand, or the value has `name: Type => |view| EXPRESSION`. `LEN
/// + options` is a header with options behind it, `LEN + ..` another header of variable length.
macro_rules! header {
    ($(#[$view_doc:meta])* view $view:ident($len:ident) $parts:tt) => {
        crate::header::header! { @view [$(#[$view_doc])*] $view($len) $parts }
    };
    (
        $(#[$view_doc:meta])*
        view $view:ident($len:ident $(+ $more:tt)?) $parts:tt
        $(#[$value_doc:meta])*
        value $value:ident $fields:tt
    ) => {
        crate::header::header! { @view [$(#[$view_doc])*] $view($len) $parts }
        crate::header::header! { @value [$(#[$value_doc])*] $view($len) ['_] $value [] $fields }
        crate::header::header! { @len $view $value [] $len $(+ $more)? }
    };
    (
        $(#[$view_doc:meta])*
        view $view:ident($len:ident $(+ $more:tt)?) $parts:tt
        $(#[$value_doc:meta])*
        value $value:ident<$life:lifetime> $fields:tt
    ) => {
        crate::header::header! { @view [$(#[$view_doc])*] $view($len) $parts }
        crate::header::header! {
            @value [$(#[$value_doc])*] $view($len) [$life] $value [<$life>] $fields
        }
        crate::header::header! { @len $view $value [<$life>] $len $(+ $more)? }
    };
    (@len $view:ident $value:ident [] $len:ident) => {
        impl $value {
            /// Bytes that [`emit`](Self::emit) writes.
            #[inline]
            pub const fn header_len(&self) -> usize {
                $len
            }
        }
    };
    (@len $view:ident $value:ident [$($generics:tt)*] $len:ident + options) => {
        impl<'a> $view<'a> {
            /// Bytes of header and options.
            #[inline]
            pub fn header_len(&self) -> usize {
                $len + self.options.len()
            }
        }

        impl $($generics)* $value $($generics)* {
            /// Bytes that [`emit`](Self::emit) writes.
            #[inline]
            pub const fn header_len(&self) -> usize {
                $len + self.options.len()
            }
        }
    };
    (@len $view:ident $value:ident [] $len:ident + ..) => {};
    (@view [$($doc:tt)*] $view:ident($len:ident) {
        $( $(#[$part_doc:meta])* $vis:vis $part:ident, )*
    }) => {
        $($doc)*
        #[derive(Clone, Copy, Debug)]
        pub struct $view<'a> {
            header: &'a [u8; $len],
            $( $part: &'a [u8], )*
        }

        impl<'a> $view<'a> {
            $(
                $(#[$part_doc])*
                #[inline]
                $vis fn $part(&self) -> &'a [u8] {
                    self.$part
                }
            )*
        }
    };
    (@value [$($doc:tt)*] $view:ident($len:ident) [$life:lifetime] $value:ident [$($generics:tt)*] {
        $(
            $(#[$field_doc:meta])*
            $name:ident: $kind:ty $(= $at:literal)? $(=> |$it:ident| $parse:expr)?,
        )*
    }) => {
        $($doc)*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $value $($generics)* {
            $( $(#[$field_doc])* pub $name: $kind, )*
        }

        impl<'a> $view<'a> {
            $( crate::header::accessor! { $(#[$field_doc])* $len $name: $kind $(= $at)? } )*
        }

        impl $($generics)* $value $($generics)* {
            /// Reads the fields of a view.
            #[inline]
            pub fn parse(view: &$view<$life>) -> Self {
                Self { $( $name: crate::header::value!(view $name $(|$it| $parse)?), )* }
            }

            /// Writes the fields with fixed offsets.
            #[inline]
            fn put_fields(&self, header: &mut [u8; $len]) {
                $( $( crate::field::HeaderField::put::<$at, $len>(self.$name, header); )? )*
            }
        }
    };
}

/// Accessors of a view, for fields that are not in its value.
macro_rules! accessors {
    ($len:ident { $( $(#[$doc:meta])* $name:ident: $kind:ty = $at:literal, )* }) => {
        $( crate::header::accessor! { $(#[$doc])* $len $name: $kind = $at } )*
    };
}

/// The accessor of a field with a fixed offset; nothing for other fields.
macro_rules! accessor {
    ($(#[$doc:meta])* $len:ident $name:ident: $kind:ty = $at:literal) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> $kind {
            <$kind as crate::field::HeaderField>::get::<$at, $len>(self.header)
        }
    };
    ($(#[$doc:meta])* $len:ident $name:ident: $kind:ty) => {};
}

/// The expression that reads a field of a value.
macro_rules! value {
    ($view:ident $name:ident) => {
        $view.$name()
    };
    ($view:ident $name:ident |$it:ident| $parse:expr) => {{
        let $it = $view;
        $parse
    }};
}

/// The tests that headers have in common. The module defines the bytes of a header with its
/// payload, and its value. `header` is the length of the header; the view first needs `fixed`
/// bytes, and then `whole` bytes.
#[cfg(test)]
macro_rules! tests {
    ($value:ident, $view:ident, $header:expr) => {
        crate::header::tests! { $value, $view, $header, $header, $header }
    };
    ($value:ident, $view:ident, $header:expr, $fixed:expr, $whole:expr) => {
        #[test]
        fn construct() {
            let mut bytes = BYTES;
            bytes[..$header].fill(0xa5);
            assert_eq!(VALUE.emit(&mut bytes), Ok(VALUE.header_len()));
            assert_eq!(bytes, BYTES);
        }

        #[test]
        fn parse() {
            assert_eq!($value::parse(&$view::new(&BYTES).unwrap()), VALUE);
        }

        #[test]
        fn emit() {
            let mut header = [0; $header];
            assert_eq!(VALUE.emit(&mut header), Ok($header));
            assert_eq!(header, BYTES[..$header]);
        }

        #[test]
        fn impossible_len() {
            for have in 0..$whole {
                let needed = if have < $fixed { $fixed } else { $whole };
                let error = WireError::Truncated { needed, have };
                assert_eq!($view::new(&BYTES[..have]).unwrap_err(), error);
            }
            for have in 0..$header {
                let error = WireError::Truncated { needed: $header, have };
                assert_eq!(VALUE.emit(&mut [0; $header][..have]), Err(error));
            }
        }
    };
}

#[cfg(test)]
pub(crate) use tests;
pub(crate) use {accessor, accessors, header, value};
