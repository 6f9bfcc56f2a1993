//! An index of the queries by name, which rejects types without a query in a few instructions.

use super::kind::{ENUM, ENUM64, FUNC, INT, STRUCT, TYPEDEF, UNION};
use super::name::{Name, head};
use super::{Query, TypeKind};
use alloc::vec::Vec;

/// The queries grouped by name, found by the first eight bytes of the name.
pub(super) struct NameIndex<'q> {
    /// Groups in the order of `Name::head`.
    pub(super) groups: Vec<Group<'q>>,
    /// Indexes into the list of queries; those of a group are adjacent.
    pub(super) indexes: Vec<usize>,
    /// Whether names of types of this kind must be checked.
    pub(super) kinds: [bool; 128],
    /// Whether names of enumerators must be checked.
    pub(super) enumerators: bool,
    /// A bit for each hash of a name: most of the kernel's names are rejected here.
    filter: [u64; FILTER_WORDS],
}

pub(super) struct Group<'q> {
    pub(super) space: Space,
    name: Name<'q>,
    pub(super) indexes: core::ops::Range<usize>,
}

/// C's name spaces: a `struct x`, a typedef `x` and a function `x` can exist together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    /// Structs and unions. In C enums share this space, but another file's enum may have the same name.
    Aggregate,
    Enum,
    Typedef,
    Func,
    Enumerator,
}

impl Space {
    #[inline]
    pub(super) const fn of(kind: u32) -> Self {
        match kind {
            FUNC => Self::Func,
            TYPEDEF => Self::Typedef,
            ENUM | ENUM64 => Self::Enum,
            _ => Self::Aggregate,
        }
    }
}

impl<'q> NameIndex<'q> {
    pub(super) fn new(queries: &[Query<'q>]) -> Self {
        let mut kinds = [false; 128];
        kinds[INT as usize] = true;
        let mut enumerators = false;
        let mut keys = Vec::with_capacity(queries.len());
        for (index, query) in queries.iter().enumerate() {
            let (space, text, of): (_, _, &[u32]) = match *query {
                Query::Field { structure, .. } | Query::Size { structure } => {
                    (Space::Aggregate, structure, &[STRUCT, UNION])
                }
                Query::Type { kind, name } => match kind {
                    TypeKind::Struct | TypeKind::Union => (Space::Aggregate, name, &[STRUCT, UNION]),
                    TypeKind::Enum => (Space::Enum, name, &[ENUM, ENUM64]),
                    TypeKind::Func => (Space::Func, name, &[FUNC]),
                    TypeKind::Typedef => (Space::Typedef, name, &[TYPEDEF]),
                },
                Query::Parameters { typedef } => (Space::Typedef, typedef, &[TYPEDEF]),
                Query::Enumerator {
                    enumeration: Some(text),
                    ..
                } => (Space::Enum, text, &[ENUM, ENUM64]),
                Query::Enumerator {
                    enumeration: None,
                    name,
                } => {
                    enumerators = true;
                    (Space::Enumerator, name, &[ENUM, ENUM64])
                }
            };
            if let Some(name) = Name::new(text) {
                for &kind in of {
                    kinds[kind as usize] = true;
                }
                keys.push((name, space, index));
            }
        }
        keys.sort_unstable_by_key(|&(name, space, index)| (name.head, name.text, space, index));
        let mut filter = [0; FILTER_WORDS];
        let mut groups: Vec<Group<'q>> = Vec::with_capacity(keys.len());
        let mut indexes = Vec::with_capacity(keys.len());
        for (name, space, index) in keys {
            match groups.last_mut() {
                Some(last) if (last.name.text, last.space) == (name.text, space) => last.indexes.end += 1,
                _ => groups.push(Group {
                    space,
                    name,
                    indexes: indexes.len()..indexes.len() + 1,
                }),
            }
            indexes.push(index);
            let hash = hash(name.head);
            filter[hash / 64] |= 1 << (hash % 64);
        }
        Self {
            groups,
            indexes,
            kinds,
            enumerators,
            filter,
        }
    }

    /// Calls `found` with the index of the group with the name at `at`, if there is one.
    #[inline]
    pub(super) fn find(&self, strings: &[u8], at: u32, space: Space, found: impl FnOnce(usize)) {
        let head = head(strings, at);
        let hash = hash(head);
        if self.filter[hash / 64] >> (hash % 64) & 1 == 1 {
            self.find_exactly(strings, at, space, head, found);
        }
    }

    #[cold]
    fn find_exactly(&self, strings: &[u8], at: u32, space: Space, head: u64, found: impl FnOnce(usize)) {
        let first = self.groups.partition_point(|group| group.name.head < head);
        let same = self
            .groups
            .iter()
            .enumerate()
            .skip(first)
            .take_while(|(_, group)| group.name.head == head);
        for (index, group) in same {
            if group.space == space && group.name.is_at(strings, at) {
                return found(index);
            }
        }
    }
}

#[inline]
const fn hash(head: u64) -> usize {
    (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}

const FILTER_BITS: u32 = 12;
const FILTER_WORDS: usize = (1 << FILTER_BITS) / 64;
