//! All enumerators of an enum: for enums that differ between kernels, as the reasons of drops.

use super::kind::{COUNT_MASK, ENUM, ENUM64, HEAD_BYTES, KIND_MASK, lengths};
use super::members::enumerator_value;
use super::name::Name;
use super::{Btf, Error, TypeId};
use crate::Layer;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// See [`Btf::enumerators`] and [`Btf::module_enumerators`]: `base` are the strings that are before those of `btf`.
pub(super) fn enumerators<'a>(
    btf: &Btf<'a>,
    base: &[u8],
    enumeration: &str,
) -> Result<Vec<(i64, Cow<'a, str>)>, Error> {
    let Some(wanted) = Name::new(enumeration) else {
        return Ok(Vec::new());
    };
    let lengths = lengths(btf);
    let mut found = Vec::new();
    let (mut at, mut id) = (0_usize, 1_u32);
    while at < btf.types.len() {
        let short = |needed| {
            Error::Short(crate::Error {
                layer: Layer::BtfTypes,
                offset: btf.types_at + at,
                needed,
                got: btf.types.len() - at,
            })
        };
        let word = |place| btf.type_word(at + place).ok_or_else(|| short(HEAD_BYTES));
        let (name_at, info) = (word(0)?, word(4)?);
        word(8)?;
        let kind = info >> 24 & KIND_MASK;
        let count = info & COUNT_MASK;
        let (fixed, each) = lengths[kind as usize];
        if fixed == 0 {
            return Err(Error::Kind {
                kind: kind as u8,
                id: TypeId(id),
                offset: btf.types_at + at,
            });
        }
        let len =
            usize::try_from(u64::from(fixed) + u64::from(each) * u64::from(count)).unwrap_or(usize::MAX);
        if len > btf.types.len() - at {
            return Err(short(len));
        }
        if matches!(kind, ENUM | ENUM64) && count > 0 && is_named(btf, base, &wanted, name_at) {
            let bytes = if kind == ENUM { 8 } else { 12 };
            for place in (at + HEAD_BYTES..at + len).step_by(bytes) {
                let name = btf
                    .type_word(place)
                    .and_then(|name_at| name_of(btf, base, name_at));
                if let Some((name, value)) = name.zip(enumerator_value(btf, info, place)) {
                    found.push((value, name));
                }
            }
            return Ok(found);
        }
        at += len;
        id = id.saturating_add(1);
    }
    Ok(found)
}

/// Whether a type has this name.
fn is_named(btf: &Btf<'_>, base: &[u8], name: &Name<'_>, at: u32) -> bool {
    match own_offset(base, at) {
        Some(at) => name.is_at(btf.strings, at),
        None => name.is_at(base, at),
    }
}

/// Returns a name of an enumerator. It may be one of the kernel's, which are copied.
fn name_of<'a>(btf: &Btf<'a>, base: &[u8], at: u32) -> Option<Cow<'a, str>> {
    match own_offset(base, at) {
        Some(at) => text(btf.strings, at),
        None => Some(Cow::Owned(text(base, at)?.into_owned())),
    }
}

/// Returns the offset in a module's own strings; `None` if it is one of the kernel's.
fn own_offset(base: &[u8], at: u32) -> Option<u32> {
    u32::try_from(base.len()).ok().and_then(|len| at.checked_sub(len))
}

/// Returns the string at an offset of the string section.
fn text(strings: &[u8], at: u32) -> Option<Cow<'_, str>> {
    let rest = strings.get(at as usize..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]))
}
