//! CO-RE relocations: what a compiled BPF program needs to know about the running kernel's types.
//!
//! clang writes an object's types into its section `.BTF`, and into `.BTF.ext` a record for each instruction that
//! depends on a kernel type: "the offset of member 3 of type 17". [`read`] turns each record into a [`Relocation`]
//! by name; its [`query`](Relocation::query) is answered by the kernel's BTF, and [`value`](Relocation::value)
//! is the number to write into the instruction.
//!
//! What it deliberately does not do: change instructions, or follow pointers and arrays, which the
//! programs read step by step.
//!
//! Source: `Documentation/bpf/llvm_reloc.rst` and `tools/lib/bpf/relo_core.c` of Linux 6.12.

use super::kind::{
    CONST, COUNT_MASK, ENUM, HEAD_BYTES, INT, KIND_MASK, PTR, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, UNION,
    VOLATILE, lengths,
};
use super::{Answer, Query, TypeKind, word};
use crate::Layer;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The relocation of one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocation<'a> {
    /// Name of the instruction's section.
    pub section: &'a str,
    /// Offset of the instruction in the section.
    pub offset_bytes: u32,
    /// Property of the target to write into the instruction.
    pub kind: RelocationKind,
    /// The field or type.
    pub target: RelocationTarget<'a>,
}

/// The property of a field or type that an instruction needs (`enum bpf_core_relo_kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelocationKind {
    /// Offset of a field in bytes.
    FieldOffset,
    /// Size of a field in bytes.
    FieldSize,
    /// 1 if a field exists, else 0.
    FieldExists,
    /// Number of bits to shift a field to the left in 64 bits.
    FieldLeftShift,
    /// Number of bits to shift it to the right after that.
    FieldRightShift,
    /// Id of a type in the kernel's BTF.
    TypeId,
    /// Size of a type in bytes.
    TypeSize,
}

/// The field or type of a relocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelocationTarget<'a> {
    /// A field.
    Field {
        /// Name of the struct or union.
        structure: &'a str,
        /// Member names, separated by dots.
        path: String,
        /// Size of the field in the object's declaration, if it is a number or a pointer and not a bit field: a kernel
        /// field of another size does not match.
        size_bytes: Option<u32>,
    },
    /// A type.
    Type {
        /// Kind of the type.
        kind: TypeKind,
        /// Its name.
        name: &'a str,
    },
}

impl Relocation<'_> {
    /// Returns the query for the kernel's BTF.
    #[must_use]
    pub fn query(&self) -> Query<'_> {
        match (&self.target, self.kind) {
            (RelocationTarget::Field { structure, path, .. }, _) => Query::Field { structure, path },
            (&RelocationTarget::Type { name, .. }, RelocationKind::TypeSize) => {
                Query::Size { structure: name }
            }
            (&RelocationTarget::Type { kind, name }, _) => Query::Type { kind, name },
        }
    }

    /// Returns the number for the instruction; `None` if this kernel lacks the field or type, and the instruction must
    /// not be reached.
    #[must_use]
    pub fn value(&self, answer: Option<Answer>) -> Option<u32> {
        let field = match answer {
            Some(Answer::Field(field)) => Some(field),
            Some(Answer::Type(id)) if self.kind == RelocationKind::TypeId => return Some(id.0),
            Some(Answer::Size(bytes)) if self.kind == RelocationKind::TypeSize => return Some(bytes),
            _ => None,
        };
        let field = field.filter(|field| match &self.target {
            RelocationTarget::Field {
                size_bytes: Some(declared),
                ..
            } => field.bits.is_none() && field.size_bytes == *declared,
            _ => true,
        });
        if self.kind == RelocationKind::FieldExists {
            return Some(u32::from(field.is_some()));
        }
        let field = field?;
        // For a bit field, `offset_bytes` and `size_bytes` are those of the word that contains it.
        let bits = || match field.bits {
            Some(bits) => Some((u32::from(bits.shift), u32::from(bits.size))),
            None => Some((0, field.size_bytes.checked_mul(8)?)),
        };
        match self.kind {
            RelocationKind::FieldOffset => Some(field.offset_bytes),
            RelocationKind::FieldSize => Some(field.size_bytes),
            // For little-endian kernels, the only supported ones: the lowest bit comes first.
            RelocationKind::FieldLeftShift => {
                let (shift, size) = bits()?;
                64_u32.checked_sub(shift.checked_add(size)?)
            }
            RelocationKind::FieldRightShift => 64_u32.checked_sub(bits()?.1),
            RelocationKind::FieldExists | RelocationKind::TypeId | RelocationKind::TypeSize => None,
        }
    }
}

/// Reads the relocations of an object from its types and its section `.BTF.ext`.
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
/// If a section is truncated, or a record is not a [`RelocationKind`] of a [`RelocationTarget`].
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
        return Ok(Vec::new()); // older than relocations
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
            let [offset_bytes, id, access, kind] = [
                word(at)?,
                word(at.saturating_add(4))?,
                word(at.saturating_add(8))?,
                word(at.saturating_add(12))?,
            ];
            let kind = RelocationKind::from_number(kind).ok_or(unknown)?;
            let access = types.string(access).ok_or(unknown)?;
            let target = match kind {
                RelocationKind::TypeId | RelocationKind::TypeSize => types.target(id),
                _ => types.field(id, access),
            };
            relocations.push(Relocation {
                section,
                offset_bytes,
                kind,
                target: target.ok_or(unknown)?,
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
    /// Its types or its `.BTF.ext` are invalid.
    Btf(super::Error),
    /// The record at this offset of `.BTF.ext` has an unknown kind.
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

impl RelocationKind {
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

/// The types of an object, by id. There are a few hundred.
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

    /// Returns the type with this id.
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

    /// Resolves typedefs, qualifiers and tags.
    fn resolved(&self, mut id: u32) -> Option<Type> {
        for _ in 0..DEPTH_MAX {
            let this = self.by_id(id)?;
            match this.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = this.size_or_type,
                _ => return Some(this),
            }
        }
        None
    }

    /// Returns the kernel's name of a type. What is behind three underscores is not part of it, as in libbpf: an object can declare
    /// several parts of a struct, `sock___flags`, that it uses in different programs.
    fn name(&self, this: &Type) -> Option<&'a str> {
        let name = self.string(self.btf.type_word(this.at)?)?;
        let name = name.split("___").next().unwrap_or(name);
        Some(name).filter(|name| !name.is_empty())
    }

    fn target(&self, id: u32) -> Option<RelocationTarget<'a>> {
        let this = self.resolved(id)?;
        let kind = match this.kind {
            STRUCT => TypeKind::Struct,
            UNION => TypeKind::Union,
            _ => return None,
        };
        Some(RelocationTarget::Type {
            kind,
            name: self.name(&this)?,
        })
    }

    /// Resolves an access string to a field: "0:" and member indexes, separated by colons, each in the struct of the
    /// one before.
    fn field(&self, id: u32, access: &str) -> Option<RelocationTarget<'a>> {
        let outermost = self.resolved(id)?;
        let structure = self.name(&outermost)?;
        let mut steps = access.split(':');
        if steps.next()? != "0" {
            return None;
        }
        let (mut this, mut path, mut size_bytes) = (outermost, String::new(), None);
        for (depth, step) in (0..).zip(steps) {
            // No valid struct contains itself, but a broken one may.
            if depth == DEPTH_MAX {
                return None;
            }
            let index: u32 = step.parse().ok()?;
            if !matches!(this.kind, STRUCT | UNION) || index >= this.members {
                return None;
            }
            let at = this.at + HEAD_BYTES + index as usize * MEMBER_BYTES;
            let name = self.string(self.btf.type_word(at)?)?;
            if !name.is_empty() {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            let is_bits = this.has_bit_fields && self.btf.type_word(at + 8)? >> 24 != 0;
            this = self.resolved(self.btf.type_word(at + 4)?)?;
            size_bytes = match this.kind {
                INT | ENUM if !is_bits => Some(this.size_or_type),
                PTR => Some(POINTER_BYTES),
                _ => None,
            };
        }
        (!path.is_empty()).then_some(RelocationTarget::Field {
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
/// Size of a pointer of BPF, for which the object was compiled.
const POINTER_BYTES: u32 = 8;
/// Most nested typedefs or structs; more are a loop.
const DEPTH_MAX: u32 = 32;

#[cfg(test)]
mod tests;
