//! BTF: what a kernel says of its own types, in `/sys/kernel/btf/vmlinux`.
//!
//! A program that reads kernel structs in place needs a few dozen offsets, sizes and type ids of the
//! kernel that runs. [`Btf::answer`] finds them in one linear pass over the types (5.5 MB, 120,000
//! types), then looks closer only at the structs that were asked for. Nothing is indexed or copied that
//! nobody asked for, and strings are read only where a type of an interesting kind points at them.
//!
//! What it deliberately does not do: split BTF (that of modules), types of functions' arguments,
//! following pointers.
//!
//! Source: `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h`, Linux 4.18 and later.
//!
//! Written here because `btf-rs`, the reader on its own, is under LGPL-2.1, which deny.toml does not allow, and that of `aya-obj`
//! parses and keeps every type, which takes 22 ms: three times what a walk over 80,000 sockets takes.
//!
//! ```
//! use sockeye_wire::btf::{Btf, Question, TypeKind};
//!
//! const QUESTIONS: [Question<'static>; 2] = [
//!     Question::Field { structure: "sock", path: "__sk_common.skc_family" },
//!     Question::Type { kind: TypeKind::Func, name: "bpf_rdonly_cast" },
//! ];
//! fn layout(btf: &[u8]) -> Result<(Option<u32>, Option<u32>), sockeye_wire::btf::Error> {
//!     let answers = Btf::parse(btf)?.answer(&QUESTIONS)?;
//!     Ok((answers.field(0).map(|at| at.offset_bytes), answers.type_id(1).map(|id| id.0)))
//! }
//! // A header alone is a BTF without types: every answer is None.
//! let mut empty = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
//! empty.extend([0; 12]);
//! empty.extend([1, 0, 0, 0, 0]);
//! assert_eq!(layout(&empty), Ok((None, None)));
//! ```

mod kind;
mod members;
mod name;
mod question;
pub mod relocation;
mod scan;
mod wanted;

use crate::Layer;
use core::fmt;
pub use question::{Answer, Answers, Bits, FieldAt, Question, TypeId, TypeKind};

/// A BTF blob whose header has been checked. The types are checked by [`Btf::answer`], which reads them anyway.
#[derive(Debug, Clone, Copy)]
pub struct Btf<'a> {
    types: &'a [u8],
    /// Ends in a NUL.
    strings: &'a [u8],
    /// Four bytes for each kind: how long its types are. Empty before 7.1.
    layouts: &'a [u8],
    /// Where `types` starts in the blob, for errors.
    types_at: usize,
    little_endian: bool,
}

impl<'a> Btf<'a> {
    /// Checks the header: magic, version, and that the sections it names are there. Both byte orders are read.
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
    /// When this is not BTF of version 1, or a section reaches past the end.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        // What lies past the end is missing from the end on.
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
            // One more byte would have ended the last string.
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

    /// Answers all questions, in their order: one pass over the types, then a closer look at those asked for.
    ///
    /// Where several types of one name exist (the kernel has a few: file-local structs), all questions about that
    /// name are answered from one of them: the one that answers the most, and of equals the first. Of more than
    /// 16 of one name the rest is passed over. Strings are compared as text: the same text may stand at several
    /// offsets, or be the end of another.
    ///
    /// # Errors
    /// When a type reaches past the end of its section, or is of a kind whose size is not known.
    pub fn answer(&self, questions: &[Question<'_>]) -> Result<Answers, Error> {
        scan::answer(self, questions)
    }

    /// The 32-bit number at `at` of the type section.
    #[inline]
    fn type_word(&self, at: usize) -> Option<u32> {
        word(self.types, at, self.little_endian)
    }
}

/// Why a BTF blob cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It ends too early, or a section reaches past the end.
    Short(crate::Error),
    /// It begins with these bytes, not with 0xeb9f in either order.
    Magic([u8; 2]),
    /// It is of this version; 1 is the only one there is.
    Version(u8),
    /// A type of a kind that is neither known here nor described by the blob, so that where the next one starts cannot be told.
    Kind {
        /// `BTF_INFO_KIND`
        kind: u8,
        /// The type's number.
        id: TypeId,
        /// Where it is, in bytes from the start of the blob.
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

/// A 32-bit number in the byte order of the blob, which may be another machine's.
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
