//! Members of single types: their offsets and sizes.

use super::kind::{
    ARRAY, CONST, COUNT_MASK, DECL_TAG, ENUM, ENUM64, FLOAT, FUNC_PROTO, HEAD_BYTES, INT, KIND_MASK, Lengths,
    PTR, RESTRICT, STRUCT, TYPE_TAG, TYPEDEF, UNION, VOLATILE,
};
use super::name::Name;
use super::{Bits, Btf, FieldAt};
use alloc::vec::Vec;

/// A blob after the pass over its types, in which any type can be found by id.
pub(super) struct Members<'a> {
    pub(super) btf: Btf<'a>,
    pub(super) lengths: Lengths,
    /// Offset of every 16th type.
    pub(super) checkpoints: Vec<u32>,
    /// Size of a pointer, taken from `long`, because BTF does not have it.
    pub(super) pointer_bytes: Option<u32>,
}

/// `struct btf_type`
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    at: usize,
    info: u32,
    pub(super) kind: u32,
    pub(super) size_or_type: u32,
}

/// A member, with its offset from the start of the queried struct.
#[derive(Clone, Copy)]
struct Member {
    type_id: u32,
    offset_bits: u64,
    /// 0 if it is not a bit field.
    size_bits: u32,
}

impl Members<'_> {
    /// Returns the type at `at` in the section.
    pub(super) fn at(&self, at: u32) -> Option<Type> {
        let at = at as usize;
        let info = self.btf.type_word(at.checked_add(4)?)?;
        Some(Type {
            at,
            info,
            kind: info >> 24 & KIND_MASK,
            size_or_type: self.btf.type_word(at.checked_add(8)?)?,
        })
    }

    /// Returns offset and size of the member at the end of `path` in `this`.
    pub(super) fn field(&self, this: Type, path: &str) -> Option<FieldAt> {
        let mut steps_left = STEPS_MAX;
        let mut inside = this;
        let mut offset_bits = 0_u64;
        let mut path = path.split('.').peekable();
        loop {
            let name = Name::new(path.next()?)?;
            let member = self.member(inside, &name, DEPTH_MAX, &mut steps_left)?;
            offset_bits = offset_bits.checked_add(member.offset_bits)?;
            if path.peek().is_none() {
                let found = self.field_at(Member {
                    offset_bits,
                    ..member
                })?;
                // A member outside of its struct is invalid.
                let end = found.offset_bytes.checked_add(found.size_bytes)?;
                return (end <= this.size_or_type).then_some(found);
            }
            if member.size_bits != 0 {
                return None;
            }
            inside = self.resolved(member.type_id)?;
            for _ in 0..DEPTH_MAX {
                if inside.kind != ARRAY {
                    break;
                }
                inside = self.resolved(self.btf.type_word(inside.at + HEAD_BYTES)?)?;
            }
        }
    }

    /// Returns the value of the enumerator `name` of `this`.
    pub(super) fn enumerator(&self, this: Type, name: &Name<'_>) -> Option<i64> {
        let bytes = match this.kind {
            ENUM => 8,
            ENUM64 => 12,
            _ => return None,
        };
        (0..this.count())
            .map(|entry| this.at + HEAD_BYTES + entry * bytes)
            .find(|&at| self.named(at, name))
            .and_then(|at| enumerator_value(&self.btf, this.info, at))
    }

    /// Returns the number of parameters of the function type that the typedef `this` names, or points to.
    pub(super) fn parameters(&self, this: Type) -> Option<u32> {
        if this.kind != TYPEDEF {
            return None;
        }
        let mut inside = self.resolved(this.size_or_type)?;
        if inside.kind == PTR {
            inside = self.resolved(inside.size_or_type)?;
        }
        (inside.kind == FUNC_PROTO).then_some(inside.info & COUNT_MASK)
    }

    /// Returns the member `name` of `this`, or of the unnamed structs and unions in it.
    fn member(&self, this: Type, name: &Name<'_>, depth_left: u32, steps_left: &mut u32) -> Option<Member> {
        if !matches!(this.kind, STRUCT | UNION) {
            return None;
        }
        *steps_left = steps_left.checked_sub(u32::try_from(this.count()).ok()?)?;
        // Direct members first: they need no type lookup.
        let mut all = (0..this.count()).map(|index| this.at + HEAD_BYTES + index * MEMBER_BYTES);
        if let Some(at) = all.clone().find(|&at| self.named(at, name)) {
            return self.member_at(this, at);
        }
        let depth_left = depth_left.checked_sub(1)?;
        all.find_map(|at| {
            if self.btf.type_word(at)? != 0 {
                return None;
            }
            let unnamed = self.member_at(this, at)?;
            *steps_left = steps_left.checked_sub(UNNAMED_STEPS)?;
            let found = self.member(self.resolved(unnamed.type_id)?, name, depth_left, steps_left)?;
            Some(Member {
                offset_bits: unnamed.offset_bits.checked_add(found.offset_bits)?,
                ..found
            })
        })
    }

    /// `struct btf_member { __u32 name_off, type, offset; }`
    fn member_at(&self, this: Type, at: usize) -> Option<Member> {
        let offset = self.btf.type_word(at + 8)?;
        // With the flag of the struct, the highest byte is the size of a bit field.
        let (offset, size_bits) = if this.flag() {
            (offset & 0x00ff_ffff, offset >> 24)
        } else {
            (offset, 0)
        };
        Some(Member {
            type_id: self.btf.type_word(at + 4)?,
            offset_bits: u64::from(offset),
            size_bits,
        })
    }

    fn field_at(&self, member: Member) -> Option<FieldAt> {
        let this = self.resolved(member.type_id)?;
        let (mut offset_bits, mut size_bits) = (member.offset_bits, member.size_bits);
        if this.kind == INT && size_bits == 0 {
            // Before 4.20 a bit field had a special type: an integer with fewer bits than its bytes have.
            let int = self.btf.type_word(this.at + HEAD_BYTES)?;
            let (int_offset, int_bits) = (int >> 16 & 0xff, int & 0xff);
            if u64::from(int_bits) != u64::from(this.size_or_type) * 8 {
                offset_bits = offset_bits.checked_add(u64::from(int_offset))?;
                size_bits = int_bits;
            }
        }
        if size_bits != 0 {
            return bit_field(offset_bits, size_bits, self.btf.little_endian);
        }
        if !offset_bits.is_multiple_of(8) {
            return None;
        }
        let element = if this.kind == ARRAY {
            Some(self.size_bytes(self.btf.type_word(this.at + HEAD_BYTES)?)?)
        } else {
            None
        };
        Some(FieldAt {
            offset_bytes: u32::try_from(offset_bits / 8).ok()?,
            size_bytes: self.size_bytes(member.type_id)?,
            element_size_bytes: element,
            bits: None,
        })
    }

    /// Returns the size of a value of the type.
    fn size_bytes(&self, mut id: u32) -> Option<u32> {
        let mut elements = 1_u32;
        for _ in 0..DEPTH_MAX {
            let this = self.resolved(id)?;
            let one = match this.kind {
                INT | STRUCT | UNION | ENUM | ENUM64 | FLOAT => this.size_or_type,
                PTR => self.pointer_bytes?,
                ARRAY => {
                    // struct btf_array { __u32 type, index_type, nelems; }
                    id = self.btf.type_word(this.at + HEAD_BYTES)?;
                    elements = elements.checked_mul(self.btf.type_word(this.at + HEAD_BYTES + 8)?)?;
                    continue;
                }
                _ => return None,
            };
            return elements.checked_mul(one);
        }
        None
    }

    /// Resolves typedefs, qualifiers and tags.
    fn resolved(&self, mut id: u32) -> Option<Type> {
        for _ in 0..DEPTH_MAX {
            let this = self.by_id(id)?;
            match this.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG | DECL_TAG => id = this.size_or_type,
                _ => return Some(this),
            }
        }
        None
    }

    fn by_id(&self, id: u32) -> Option<Type> {
        let index = id.checked_sub(1)? as usize;
        let mut at = *self.checkpoints.get(index / CHECKPOINT_TYPES)? as usize;
        for _ in 0..index % CHECKPOINT_TYPES {
            let info = self.btf.type_word(at.checked_add(4)?)?;
            let (fixed, each) = self.lengths[(info >> 24 & KIND_MASK) as usize];
            let len = u64::from(fixed) + u64::from(each) * u64::from(info & COUNT_MASK);
            at = at.checked_add(usize::try_from(len).ok()?)?;
        }
        self.at(u32::try_from(at).ok()?)
    }

    #[inline]
    fn named(&self, at: usize, name: &Name<'_>) -> bool {
        self.btf
            .type_word(at)
            .is_some_and(|name_at| name.is_at(self.btf.strings, name_at))
    }
}

impl Type {
    const fn count(&self) -> usize {
        (self.info & COUNT_MASK) as usize
    }

    const fn flag(&self) -> bool {
        self.info >> 31 == 1
    }
}

/// Returns the smallest aligned word that contains the bits; `None` if they cross a word of eight bytes, in a packed
/// struct.
fn bit_field(offset_bits: u64, size_bits: u32, little_endian: bool) -> Option<FieldAt> {
    [8_u32, 16, 32, 64].into_iter().find_map(|word_bits| {
        let before = u32::try_from(offset_bits % u64::from(word_bits)).ok()?;
        let after = word_bits.checked_sub(before.checked_add(size_bits)?)?;
        // BTF counts bits in memory order: from the lowest on little-endian machines, from the highest on others.
        let shift = if little_endian { before } else { after };
        Some(FieldAt {
            offset_bytes: u32::try_from((offset_bits - u64::from(before)) / 8).ok()?,
            size_bytes: word_bits / 8,
            element_size_bytes: None,
            bits: Some(Bits {
                shift: u8::try_from(shift).ok()?,
                size: u8::try_from(size_bits).ok()?,
            }),
        })
    })
}

/// Returns the value of the enumerator at `at`. Negative values need the flag of their enum, which kernels before 6.0
/// never set.
pub(super) fn enumerator_value(btf: &Btf<'_>, info: u32, at: usize) -> Option<i64> {
    let low = btf.type_word(at + 4)?;
    Some(if info >> 24 & KIND_MASK == ENUM64 {
        (u64::from(low) | u64::from(btf.type_word(at + 8)?) << 32) as i64
    } else if info >> 31 == 1 {
        i64::from(low as i32)
    } else {
        i64::from(low)
    })
}

/// Number of types per stored offset: 32 KB for a kernel instead of 500, and a few steps to the others.
pub(super) const CHECKPOINT_TYPES: usize = 16;
/// `struct btf_member`
const MEMBER_BYTES: usize = 12;
/// Typedefs of typedefs, unnamed structs in unnamed structs, arrays of arrays. The kernel's verifier allows 32.
const DEPTH_MAX: u32 = 32;
/// Most members checked for one query. The largest struct has a few hundred; only a forged blob has more.
const STEPS_MAX: u32 = 16_384;
/// Steps that looking up the type of one unnamed member counts as.
const UNNAMED_STEPS: u32 = 32;
