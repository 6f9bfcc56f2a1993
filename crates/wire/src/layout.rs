//! Layouts of the kernel's structs, as tables of `name: type = reader @ offset`.

/// Defines methods that read the numbers of a view, whose bytes in the named field are longer than each offset here.
macro_rules! accessors {
    ($bytes:ident: $($(#[$doc:meta])* $name:ident: $type:ty = $read:ident @ $at:literal;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[inline]
        pub fn $name(&self) -> $type {
            $read(self.$bytes, $at).unwrap_or_default()
        }
    )*};
}

/// Defines methods that read the numbers of a view, whose bytes end earlier on older kernels.
macro_rules! optional_accessors {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $read:ident @ $at:literal;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Option<$type> {
            $read(self.0, $at)
        }
    )*};
}

/// Defines a socket as `NETLINK_SOCK_DIAG` describes it: a fixed part, then attributes.
macro_rules! sock_diag {
    ($(#[$meta:meta])* pub struct $name:ident: $bytes:literal, $layer:ident { $($fields:tt)* }) => {
        $(#[$meta])*
        ///
        /// The fixed part is checked, attributes are not parsed yet.
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a> {
            fixed: &'a [u8; $bytes],
            attributes: &'a [u8],
        }

        impl<'a> $name<'a> {
            /// Parses the payload of one netlink message.
            ///
            /// # Errors
            /// When it is shorter than the fixed part.
            #[inline]
            pub fn parse(payload: &'a [u8]) -> Result<Self, crate::Error> {
                let (fixed, attributes) = crate::bytes::split_fixed(payload, crate::Layer::$layer)?;
                Ok(Self { fixed, attributes })
            }

            accessors! { fixed: $($fields)* }

            /// The attributes after the fixed part; the types are the constants of [`mod@attribute`].
            #[must_use]
            #[inline]
            pub const fn attributes(&self) -> crate::netlink::Attributes<'a> {
                crate::netlink::Attributes::new(self.attributes)
            }
        }
    };
}

/// Defines a struct in the payload of a netlink attribute.
macro_rules! attribute {
    ($($item:tt)*) => { layout! { parse "Parses the attribute's payload; `None` if it is too short." $($item)* } };
}

/// Defines a struct in a map or in the output of a BPF program.
macro_rules! record {
    ($($item:tt)*) => { layout! { read "Reads the program's bytes; `None` if they are too few." $($item)* } };
}

macro_rules! layout {
    ($method:ident $about:literal $(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $read:ident @ $at:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            #[doc = $about]
            #[must_use]
            #[inline]
            pub fn $method(bytes: &[u8]) -> Option<Self> {
                Some(Self { $($field: $read(bytes, $at)?,)* })
            }
        }
    };
}
