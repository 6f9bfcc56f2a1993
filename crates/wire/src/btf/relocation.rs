//! CO-RE relocations: what a compiled BPF program wants to know of the kernel it will run in.
//!
//! clang writes an object's own types into its section `.BTF`, and into `.BTF.ext` a record for each
//! instruction that holds something of a kernel's type: "the place of member 3 of type 17". [`read`] turns each
//! record into a [`Relocation`] by name; its [`question`](Relocation::question) is put to the kernel's BTF, and
//! [`value`](Relocation::value) is what belongs into the instruction.
//!
//! What it deliberately does not do: change instructions, or follow pointers and arrays, which our
//! programs read step by step.
//!
//! Source: `Documentation/bpf/llvm_reloc.rst` and `tools/lib/bpf/relo_core.c` of Linux 6.12.

use super::kind::{
    CONST, COUNT_MASK, ENUM, HEAD_BYTES, INT, KIND_MASK, PTR, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, UNION,
    VOLATILE, lengths,
};
use super::{Answer, Question, TypeKind, word};
use crate::Layer;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// One instruction's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation<'a> {
    /// The section that the instruction is in.
    pub section: &'a str,
    /// Where the instruction begins in it.
    pub offset_bytes: u32,
    /// What is asked.
    pub wish: Wish,
    /// About what.
    pub subject: Subject<'a>,
}

/// What an instruction wants to hold (`enum bpf_core_relo_kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Where a field begins.
    FieldOffset,
    /// How long it is.
    FieldSize,
    /// 1 if it exists, else 0.
    FieldExists,
    /// By how much to shift it to the left in 64 bits.
    FieldLeftShift,
    /// By how much to shift it to the right after that.
    FieldRightShift,
    /// The number of a type in the kernel's BTF.
    TypeId,
    /// How long a type is.
    TypeSize,
}

/// What a relocation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A field.
    Field {
        /// Name of the struct or union.
        structure: &'a str,
        /// Members from there, dots between them.
        path: String,
        /// How long the object's own declaration of it is, if it is a number or a pointer and no bit field: a field
        /// of another size is not the one that was meant.
        size_bytes: Option<u32>,
    },
    /// A type.
    Type {
        /// Of which kind.
        kind: TypeKind,
        /// Its name.
        name: &'a str,
    },
}

impl Relocation<'_> {
    /// What to ask the kernel's BTF.
    #[must_use]
    pub fn question(&self) -> Question<'_> {
        match (&self.subject, self.wish) {
            (Subject::Field { structure, path, .. }, _) => Question::Field { structure, path },
            (&Subject::Type { name, .. }, Wish::TypeSize) => Question::Size { structure: name },
            (&Subject::Type { kind, name }, _) => Question::Type { kind, name },
        }
    }

    /// What belongs into the instruction; `None`: this kernel has not got it, and the instruction must not be
    /// reached.
    #[must_use]
    pub fn value(&self, answer: Option<Answer>) -> Option<u32> {
        let field = match answer {
            Some(Answer::Field(field)) => Some(field),
            Some(Answer::Type(id)) if self.wish == Wish::TypeId => return Some(id.0),
            Some(Answer::Size(bytes)) if self.wish == Wish::TypeSize => return Some(bytes),
            _ => None,
        };
        let field = field.filter(|field| match &self.subject {
            Subject::Field {
                size_bytes: Some(declared),
                ..
            } => field.bits.is_none() && field.size_bytes == *declared,
            _ => true,
        });
        if self.wish == Wish::FieldExists {
            return Some(u32::from(field.is_some()));
        }
        let field = field?;
        // Of a bit field, `offset_bytes` and `size_bytes` are those of the number that holds it.
        let bits = || match field.bits {
            Some(bits) => Some((u32::from(bits.shift), u32::from(bits.size))),
            None => Some((0, field.size_bytes.checked_mul(8)?)),
        };
        match self.wish {
            Wish::FieldOffset => Some(field.offset_bytes),
            Wish::FieldSize => Some(field.size_bytes),
            // As the kernels that we read are little-endian: the lowest bit comes first.
            Wish::FieldLeftShift => {
                let (shift, size) = bits()?;
                64_u32.checked_sub(shift.checked_add(size)?)
            }
            Wish::FieldRightShift => 64_u32.checked_sub(bits()?.1),
            Wish::FieldExists | Wish::TypeId | Wish::TypeSize => None,
        }
    }
}

/// Reads the relocations of an object: its own types, and the section `.BTF.ext` beside them.
///
/// ```c
/// struct btf_ext_header {
///     __u16 magic; __u8 version, flags; __u32 hdr_len;
///     __u32 func_info_off, func_info_len, line_info_off, line_info_len, core_relo_off, core_relo_len;
/// };
/// struct btf_ext_info_sec { __u32 sec_name_off, num_info; /* records */ };
/// struct bpf_core_relo { __u32 insn_off, type_id, access_str_off, kind; };
/// ```
///
/// # Errors
/// When a section ends too early, or asks for something that is not one of [`Wish`] of a [`Subject`].
pub fn read<'a>(types: &super::Btf<'a>, ext: &[u8]) -> Result<Vec<Relocation<'a>>, Error> {
    let types = Types::new(types)?;
    let word = |at: usize| {
        word(ext, at, types.btf.little_endian).ok_or(Error::Btf(super::Error::Short(crate::Error {
            layer: Layer::BtfExt,
            offset: at.min(ext.len()),
            needed: 4,
            got: ext.len().saturating_sub(at),
        })))
    };
    let header_bytes = word(4)? as usize;
    if header_bytes < HEADER_BYTES {
        return Ok(Vec::new()); // from before there were relocations
    }
    let mut at = header_bytes.saturating_add(word(24)? as usize);
    let end = at.saturating_add(word(28)? as usize);
    let mut relocations = Vec::new();
    if at >= end {
        return Ok(relocations);
    }
    let record_bytes = word(at)? as usize;
    if record_bytes < RECORD_BYTES {
        return Err(Error::Unknown { at });
    }
    at = at.saturating_add(4);
    while at < end {
        let section = types.string(word(at)?).ok_or(Error::Unknown { at })?;
        let records = word(at.saturating_add(4))?;
        at = at.saturating_add(8);
        for _ in 0..records {
            let unknown = Error::Unknown { at };
            let [offset_bytes, id, access, wish] = [
                word(at)?,
                word(at.saturating_add(4))?,
                word(at.saturating_add(8))?,
                word(at.saturating_add(12))?,
            ];
            let wish = Wish::from_number(wish).ok_or(unknown)?;
            let access = types.string(access).ok_or(unknown)?;
            let subject = match wish {
                Wish::TypeId | Wish::TypeSize => types.subject(id),
                _ => types.field(id, access),
            };
            relocations.push(Relocation {
                section,
                offset_bytes,
                wish,
                subject: subject.ok_or(unknown)?,
            });
            at = at.saturating_add(record_bytes);
        }
    }
    Ok(relocations)
}

/// Why the relocations of an object cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Its types or its `.BTF.ext` are broken.
    Btf(super::Error),
    /// The record at this offset of `.BTF.ext` asks for something that is not known here.
    Unknown {
        /// In bytes.
        at: usize,
    },
}

impl From<super::Error> for Error {
    fn from(error: super::Error) -> Self {
        Self::Btf(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Btf(error) => error.fmt(f),
            Self::Unknown { at } => {
                write!(f, "the relocation at offset {at} of .BTF.ext is of no known kind")
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Btf(error) => Some(error),
            Self::Unknown { .. } => None,
        }
    }
}

impl Wish {
    const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::FieldOffset,
            1 => Self::FieldSize,
            2 => Self::FieldExists,
            4 => Self::FieldLeftShift,
            5 => Self::FieldRightShift,
            7 => Self::TypeId,
            9 => Self::TypeSize,
            _ => return None,
        })
    }
}

/// The types of an object, by number. There are a few hundred.
struct Types<'a> {
    btf: super::Btf<'a>,
    offsets: Vec<usize>,
}

impl<'a> Types<'a> {
    fn new(btf: &super::Btf<'a>) -> Result<Self, Error> {
        let lengths = lengths(btf);
        let (mut offsets, mut at) = (Vec::new(), 0_usize);
        while at < btf.types.len() {
            let short = super::Error::Short(crate::Error {
                layer: Layer::BtfTypes,
                offset: btf.types_at.saturating_add(at),
                needed: HEAD_BYTES,
                got: btf.types.len() - at,
            });
            let info = btf.type_word(at + 4).ok_or(short)?;
            let (fixed, each) = lengths[(info >> 24 & KIND_MASK) as usize];
            if fixed == 0 {
                return Err(Error::Unknown { at });
            }
            offsets.push(at);
            at = at
                .checked_add(usize::from(fixed) + usize::from(each) * (info & COUNT_MASK) as usize)
                .ok_or(short)?;
        }
        Ok(Self { btf: *btf, offsets })
    }

    fn string(&self, at: u32) -> Option<&'a str> {
        let rest = self.btf.strings.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        core::str::from_utf8(rest.get(..end)?).ok()
    }

    /// The type with this number: where it lies, its kind, its members, and its size or the type it refers to.
    fn by_id(&self, id: u32) -> Option<Type> {
        let at = *self.offsets.get(id.checked_sub(1)? as usize)?;
        let info = self.btf.type_word(at + 4)?;
        Some(Type {
            at,
            kind: info >> 24 & KIND_MASK,
            members: info & COUNT_MASK,
            has_bit_fields: info >> 31 == 1,
            size_or_type: self.btf.type_word(at + 8)?,
        })
    }

    /// The type behind typedefs, qualifiers and tags.
    fn plain(&self, mut id: u32) -> Option<Type> {
        for _ in 0..DEPTH_MAX {
            let this = self.by_id(id)?;
            match this.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = this.size_or_type,
                _ => return Some(this),
            }
        }
        None
    }

    fn name(&self, this: &Type) -> Option<&'a str> {
        self.string(self.btf.type_word(this.at)?)
            .filter(|name| !name.is_empty())
    }

    fn subject(&self, id: u32) -> Option<Subject<'a>> {
        let this = self.plain(id)?;
        let kind = match this.kind {
            STRUCT => TypeKind::Struct,
            UNION => TypeKind::Union,
            _ => return None,
        };
        Some(Subject::Type {
            kind,
            name: self.name(&this)?,
        })
    }

    /// `access` is "0:" and the numbers of members, colons between them: the place of a member in its struct, and of
    /// that one's in its own.
    fn field(&self, id: u32, access: &str) -> Option<Subject<'a>> {
        let outermost = self.plain(id)?;
        let structure = self.name(&outermost)?;
        let mut steps = access.split(':');
        if steps.next()? != "0" {
            return None;
        }
        let (mut this, mut path, mut size_bytes) = (outermost, String::new(), None);
        for (depth, step) in (0..).zip(steps) {
            // No struct is in itself, but a broken one may be.
            if depth == DEPTH_MAX {
                return None;
            }
            let place: u32 = step.parse().ok()?;
            if !matches!(this.kind, STRUCT | UNION) || place >= this.members {
                return None;
            }
            let at = this.at + HEAD_BYTES + place as usize * MEMBER_BYTES;
            let name = self.string(self.btf.type_word(at)?)?;
            if !name.is_empty() {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            let is_bits = this.has_bit_fields && self.btf.type_word(at + 8)? >> 24 != 0;
            this = self.plain(self.btf.type_word(at + 4)?)?;
            size_bytes = match this.kind {
                INT | ENUM if !is_bits => Some(this.size_or_type),
                PTR => Some(POINTER_BYTES),
                _ => None,
            };
        }
        (!path.is_empty()).then_some(Subject::Field {
            structure,
            path,
            size_bytes,
        })
    }
}

struct Type {
    at: usize,
    kind: u32,
    members: u32,
    has_bit_fields: bool,
    size_or_type: u32,
}

/// `struct btf_ext_header`
const HEADER_BYTES: usize = 32;
/// `struct bpf_core_relo`
const RECORD_BYTES: usize = 16;
/// `struct btf_member`
const MEMBER_BYTES: usize = 12;
/// Of BPF, which the object was compiled for.
const POINTER_BYTES: u32 = 8;
/// Typedefs of typedefs, or structs in structs; more are a loop.
const DEPTH_MAX: u32 = 32;

#[cfg(test)]
mod tests;
