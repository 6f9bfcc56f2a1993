//! The kinds of types, and their lengths.

use super::Btf;

/// Length of a type by kind: fixed bytes, and bytes per counted element. 0 if unknown.
pub(super) type Lengths = [(u16, u8); 128];

pub(super) fn lengths(btf: &Btf<'_>) -> Lengths {
    let mut lengths = [(0, 0); 128];
    // struct btf_layout { __u8 info_sz, elem_sz; __u16 flags; }, 7.1: for kinds that are unknown here.
    let described = btf.layouts.chunks_exact(4).skip(1);
    for (length, described) in lengths.iter_mut().skip(1).zip(described) {
        *length = (HEAD_BYTES as u16 + u16::from(described[0]), described[1]);
    }
    for (kind, more, each) in [
        (INT, 4, 0),
        (PTR, 0, 0),
        (ARRAY, 12, 0),
        (STRUCT, 0, 12),
        (UNION, 0, 12),
        (ENUM, 0, 8),
        (FWD, 0, 0),
        (TYPEDEF, 0, 0),
        (VOLATILE, 0, 0),
        (CONST, 0, 0),
        (RESTRICT, 0, 0),
        (FUNC, 0, 0),
        (FUNC_PROTO, 0, 8),
        (VAR, 4, 0),
        (DATASEC, 0, 12),
        (FLOAT, 0, 0),
        (DECL_TAG, 4, 0),
        (TYPE_TAG, 0, 0),
        (ENUM64, 0, 12),
    ] {
        lengths[kind as usize] = (HEAD_BYTES as u16 + more, each);
    }
    lengths
}

/// `struct btf_type { __u32 name_off, info, size_or_type; }`
pub(super) const HEAD_BYTES: usize = 12;
/// Bits 24 to 28 of `info`; 24 to 30 since 7.1. The others had to be zero.
pub(super) const KIND_MASK: u32 = 0x7f;
/// Bits 0 to 15 of `info`; 0 to 23 since 7.1. The others had to be zero.
pub(super) const COUNT_MASK: u32 = 0x00ff_ffff;

pub(super) const INT: u32 = 1;
pub(super) const PTR: u32 = 2;
pub(super) const ARRAY: u32 = 3;
pub(super) const STRUCT: u32 = 4;
pub(super) const UNION: u32 = 5;
pub(super) const ENUM: u32 = 6;
pub(super) const FWD: u32 = 7;
pub(super) const TYPEDEF: u32 = 8;
pub(super) const VOLATILE: u32 = 9;
pub(super) const CONST: u32 = 10;
pub(super) const RESTRICT: u32 = 11;
pub(super) const FUNC: u32 = 12;
pub(super) const FUNC_PROTO: u32 = 13;
pub(super) const VAR: u32 = 14;
pub(super) const DATASEC: u32 = 15;
pub(super) const FLOAT: u32 = 16;
pub(super) const DECL_TAG: u32 = 17;
pub(super) const TYPE_TAG: u32 = 18;
pub(super) const ENUM64: u32 = 19;
