//! BTF: a kernel's description of its types, in `/sys/kernel/btf/vmlinux`.
//!
//! A program that reads kernel structs in place needs a few dozen offsets, sizes and type ids of the
//! running kernel. [`Btf::answer`] finds them in one linear pass over the types (5.5 MB, 120,000
//! types), then looks closer only at the requested structs. Nothing else is indexed or copied, and
//! strings are read only where a type of a requested kind refers to them.
//!
//! What it deliberately does not do: split BTF (of modules), types of function arguments (only their number),
//! following pointers.
//!
//! Source: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h`, Linux 4.18 and later.
//!
//! Written here because `btf-rs`, the reader on its own, is under LGPL-2.1, which deny.toml does not allow, and that of `aya-obj`
//! parses and keeps every type, which takes 22 ms: three times what a walk over 80,000 sockets takes.
//!
//! ```
//! use sockeye_wire::btf::{Btf, Query, TypeKind};
//!
//! const QUERIES: [Query<'static>; 2] = [
//!     Query::Field { structure: "sock", path: "__sk_common.skc_family" },
//!     Query::Type { kind: TypeKind::Func, name: "bpf_rdonly_cast" },
//! ];
//! fn layout(btf: &[u8]) -> Result<(Option<u32>, Option<u32>), sockeye_wire::btf::Error> {
//!     let answers = Btf::parse(btf)?.answer(&QUERIES)?;
//!     Ok((answers.field(0).map(|at| at.offset_bytes), answers.type_id(1).map(|id| id.0)))
//! }
//! // A header alone is a BTF blob without types: every answer is None.
//! let mut empty = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
//! empty.extend([0; 12]);
//! empty.extend([1, 0, 0, 0, 0]);
//! assert_eq!(layout(&empty), Ok((None, None)));
//! ```

mod enumerators;
mod kind;
mod members;
mod name;
mod name_index;
mod query;
pub mod relocation;
mod scan;

use crate::Layer;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
pub use query::{Answer, Answers, Bits, FieldAt, Query, TypeId, TypeKind};

/// A BTF blob with a valid header. [`Btf::answer`] checks the types.
#[derive(Debug, Clone, Copy)]
pub struct Btf<'a> {
    types: &'a [u8],
    /// Ends in a NUL.
    strings: &'a [u8],
    /// Four bytes for each kind, with the length of its types. Empty before 7.1.
    layouts: &'a [u8],
    /// Offset of `types` in the blob, for errors.
    types_at: usize,
    little_endian: bool,
}

impl<'a> Btf<'a> {
    /// Parses the header: checks magic, version, and the bounds of its sections. Both byte orders are supported.
    ///
    /// ```c
    /// struct btf_header {
    ///     __u16 magic;                  /* 0xeB9F */
    ///     __u8  version, flags;
    ///     __u32 hdr_len;
    ///     __u32 type_off, type_len;     /* from the end of the header, in bytes */
    ///     __u32 str_off, str_len;
    ///     __u32 layout_off, layout_len; /* 7.1 */
    /// };
    /// ```
    ///
    /// # Errors
    /// If this is not BTF of version 1, or a section reaches past the end.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        // Bytes past the end are missing from the end of the blob.
        let short = |layer, start: usize, len: usize| {
            let offset = start.min(bytes.len());
            Error::Short(crate::Error {
                layer,
                offset,
                needed: start.saturating_add(len) - offset,
                got: bytes.len() - offset,
            })
        };
        let header = |needed| short(Layer::BtfHeader, 0, needed);
        let little_endian = match *bytes {
            [0x9f, 0xeb, ..] => true,
            [0xeb, 0x9f, ..] => false,
            [first, second, ..] => return Err(Error::Magic([first, second])),
            _ => return Err(header(HEADER_BYTES_MIN)),
        };
        match bytes.get(2) {
            Some(1) => {}
            Some(&version) => return Err(Error::Version(version)),
            None => return Err(header(HEADER_BYTES_MIN)),
        }
        let word = |at| word(bytes, at, little_endian).ok_or_else(|| header(HEADER_BYTES_MIN));
        let header_bytes = word(4)? as usize;
        if header_bytes < HEADER_BYTES_MIN {
            return Err(Error::Short(crate::Error {
                layer: Layer::BtfHeader,
                offset: 0,
                needed: HEADER_BYTES_MIN,
                got: header_bytes,
            }));
        }
        if header_bytes > bytes.len() {
            return Err(header(header_bytes));
        }
        let section = |layer, at: usize| {
            let start = header_bytes.saturating_add(word(at)? as usize);
            let len = word(at + 4)? as usize;
            let section = bytes.get(start..).and_then(|rest| rest.get(..len));
            section
                .map(|section| (start, section))
                .ok_or_else(|| short(layer, start, len))
        };
        let (types_at, types) = section(Layer::BtfTypes, 8)?;
        let (strings_at, strings) = section(Layer::BtfStrings, 16)?;
        if strings.last() != Some(&0) {
            // The last string lacks its NUL: one more byte is needed.
            return Err(Error::Short(crate::Error {
                layer: Layer::BtfStrings,
                offset: strings_at + strings.len(),
                needed: 1,
                got: 0,
            }));
        }
        let layouts = if header_bytes >= 32 {
            section(Layer::BtfHeader, 24)?.1
        } else {
            &[]
        };
        Ok(Self {
            types,
            strings,
            layouts,
            types_at,
            little_endian,
        })
    }

    /// Answers all queries, in order: one pass over the types, then a closer look at the requested ones.
    ///
    /// If several types have the same name (the kernel has a few file-local structs), all queries with that name are
    /// answered from one of them: the one that answers the most, the first of equals. Beyond 16 types of one name the
    /// rest is skipped. Strings are compared as text: the same text may be at several offsets, or be the end of
    /// another.
    ///
    /// # Errors
    /// If a type reaches past the end of its section, or has a kind of unknown size.
    pub fn answer(&self, queries: &[Query<'_>]) -> Result<Answers, Error> {
        scan::answer(self, queries)
    }

    /// Returns all enumerators of the first enum with this name, in its order: value and name. None if there is no such enum.
    ///
    /// # Errors
    /// As for [`Btf::answer`].
    pub fn enumerators(&self, enumeration: &str) -> Result<Vec<(i64, Cow<'a, str>)>, Error> {
        enumerators::enumerators(self, &[], enumeration)
    }

    /// Returns all enumerators of an enum of a module, as [`Btf::enumerators`] does: `self` has the types that the module adds to those of
    /// `kernel`, and its names continue behind the kernel's.
    ///
    /// # Errors
    /// As for [`Btf::answer`].
    pub fn module_enumerators(
        &self,
        kernel: &Self,
        enumeration: &str,
    ) -> Result<Vec<(i64, Cow<'a, str>)>, Error> {
        enumerators::enumerators(self, kernel.strings, enumeration)
    }

    /// Returns the 32-bit number at `at` in the type section.
    #[inline]
    fn type_word(&self, at: usize) -> Option<u32> {
        word(self.types, at, self.little_endian)
    }
}

/// Why a BTF blob cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It is truncated, or a section reaches past the end.
    Short(crate::Error),
    /// It starts with these bytes instead of 0xeb9f in either order.
    Magic([u8; 2]),
    /// It has this version; only 1 is defined.
    Version(u8),
    /// A type has a kind that is neither known here nor described by the blob, so that the next type cannot be found.
    Kind {
        /// `BTF_INFO_KIND`
        kind: u8,
        /// The type's id.
        id: TypeId,
        /// Offset of the type in bytes from the start of the blob.
        offset: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(error) => error.fmt(f),
            Self::Magic([first, second]) => write!(f, "not BTF: begins with {first:#04x} {second:#04x}"),
            Self::Version(version) => write!(f, "BTF of version {version}: only 1 is known"),
            Self::Kind { kind, id, offset } => {
                write!(
                    f,
                    "BTF type {} at offset {offset} is of unknown kind {kind}",
                    id.0
                )
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Short(error) => Some(error),
            _ => None,
        }
    }
}

const HEADER_BYTES_MIN: usize = 24;

/// Reads a 32-bit number in the blob's byte order.
#[inline]
fn word(bytes: &[u8], at: usize, little_endian: bool) -> Option<u32> {
    let bytes = *bytes.get(at..)?.first_chunk()?;
    Some(if little_endian {
        u32::from_le_bytes(bytes)
    } else {
        u32::from_be_bytes(bytes)
    })
}

#[cfg(test)]
mod tests;
