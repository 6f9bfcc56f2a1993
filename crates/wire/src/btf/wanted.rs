//! What is asked for, arranged so that a type nobody asked for is passed over in a few instructions.

use super::kind::{ENUM, ENUM64, FUNC, INT, STRUCT, TYPEDEF, UNION};
use super::name::{Name, head};
use super::{Question, TypeKind};
use alloc::vec::Vec;

/// The questions, those about one name together, found by the first eight bytes of the name.
pub(super) struct Wanted<'q> {
    /// In the order of `Name::head`.
    pub(super) groups: Vec<Group<'q>>,
    /// Places in the list of questions, those of a group together.
    pub(super) places: Vec<usize>,
    /// Whether names of types of this kind have to be looked at.
    pub(super) kinds: [bool; 128],
    /// Whether names of enumerators have to be looked at.
    pub(super) enumerators: bool,
    /// A bit for each `Name::hash`: most names of the kernel end here.
    filter: [u64; FILTER_WORDS],
}

pub(super) struct Group<'q> {
    pub(super) space: Space,
    name: Name<'q>,
    pub(super) places: core::ops::Range<usize>,
}

/// C's name spaces: there may be a `struct x`, a typedef `x` and a function `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    /// Structs and unions. C has enums in here too, but those of another file may be called the same.
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

impl<'q> Wanted<'q> {
    pub(super) fn new(questions: &[Question<'q>]) -> Self {
        let mut kinds = [false; 128];
        kinds[INT as usize] = true;
        let mut enumerators = false;
        let mut keys = Vec::with_capacity(questions.len());
        for (place, question) in questions.iter().enumerate() {
            let (space, text, of): (_, _, &[u32]) = match *question {
                Question::Field { structure, .. } | Question::Size { structure } => {
                    (Space::Aggregate, structure, &[STRUCT, UNION])
                }
                Question::Type { kind, name } => match kind {
                    TypeKind::Struct | TypeKind::Union => (Space::Aggregate, name, &[STRUCT, UNION]),
                    TypeKind::Enum => (Space::Enum, name, &[ENUM, ENUM64]),
                    TypeKind::Func => (Space::Func, name, &[FUNC]),
                    TypeKind::Typedef => (Space::Typedef, name, &[TYPEDEF]),
                },
                Question::Enumerator {
                    enumeration: Some(text),
                    ..
                } => (Space::Enum, text, &[ENUM, ENUM64]),
                Question::Enumerator {
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
                keys.push((name, space, place));
            }
        }
        keys.sort_unstable_by_key(|&(name, space, place)| (name.head, name.text, space, place));
        let mut filter = [0; FILTER_WORDS];
        let mut groups: Vec<Group<'q>> = Vec::with_capacity(keys.len());
        let mut places = Vec::with_capacity(keys.len());
        for (name, space, place) in keys {
            match groups.last_mut() {
                Some(last) if (last.name.text, last.space) == (name.text, space) => last.places.end += 1,
                _ => groups.push(Group {
                    space,
                    name,
                    places: places.len()..places.len() + 1,
                }),
            }
            places.push(place);
            let hash = hash(name.head);
            filter[hash / 64] |= 1 << (hash % 64);
        }
        Self {
            groups,
            places,
            kinds,
            enumerators,
            filter,
        }
    }

    /// Calls `found` with the group that asks for the name at `at`, if one does.
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
        for (place, group) in same {
            if group.space == space && group.name.is_at(strings, at) {
                return found(place);
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
