//! The pass over all types, which finds the queried ones.

use super::kind::{
    COUNT_MASK, ENUM, ENUM64, FUNC, HEAD_BYTES, INT, KIND_MASK, STRUCT, TYPEDEF, UNION, lengths,
};
use super::members::{CHECKPOINT_TYPES, Members, enumerator_value};
use super::name::Name;
use super::name_index::{NameIndex, Space};
use super::{Answer, Answers, Btf, Error, Query, TypeId, TypeKind};
use crate::Layer;
use alloc::vec;
use alloc::vec::Vec;

/// See [`Btf::answer`].
pub(super) fn answer(btf: &Btf<'_>, queries: &[Query<'_>]) -> Result<Answers, Error> {
    let index = NameIndex::new(queries);
    let found = if btf.little_endian {
        scan::<true>(btf, &index)?
    } else {
        scan::<false>(btf, &index)?
    };
    let mut answers = vec![None; queries.len()];
    for (group, candidates) in index.groups.iter().zip(&found.candidates) {
        let indexes = index.indexes.get(group.indexes.clone()).unwrap_or_default();
        if group.space == Space::Enumerator {
            for &query in indexes {
                if let (Some(answer), Some(first)) = (answers.get_mut(query), candidates.first()) {
                    *answer = Some(Answer::Enumerator(first.value));
                }
            }
            continue;
        }
        let mut best: Option<(usize, Vec<Option<Answer>>)> = None;
        for candidate in candidates {
            let answer = |&query: &usize| one(&found.members, candidate, queries.get(query)?);
            let of_this: Vec<_> = indexes.iter().map(answer).collect();
            let count = of_this.iter().flatten().count();
            if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, of_this));
            }
            if count == indexes.len() {
                break;
            }
        }
        let best = best.into_iter().flat_map(|(_, answers)| answers);
        for (&query, answer) in indexes.iter().zip(best) {
            if let Some(slot) = answers.get_mut(query) {
                *slot = answer;
            }
        }
    }
    Ok(Answers(answers))
}

/// Returns one type's answer to a query with its name.
fn one(members: &Members<'_>, candidate: &Candidate, query: &Query<'_>) -> Option<Answer> {
    let this = members.at(candidate.at)?;
    match *query {
        Query::Field { path, .. } => members.field(this, path).map(Answer::Field),
        Query::Size { .. } => matches!(this.kind, STRUCT | UNION).then_some(Answer::Size(this.size_or_type)),
        Query::Type { kind, .. } => {
            let same = match kind {
                TypeKind::Struct => this.kind == STRUCT,
                TypeKind::Union => this.kind == UNION,
                TypeKind::Enum => matches!(this.kind, ENUM | ENUM64),
                TypeKind::Func => this.kind == FUNC,
                TypeKind::Typedef => this.kind == TYPEDEF,
            };
            same.then_some(Answer::Type(TypeId(candidate.id)))
        }
        Query::Parameters { .. } => members.parameters(this).map(Answer::Parameters),
        Query::Enumerator { name, .. } => members
            .enumerator(this, &Name::new(name)?)
            .map(Answer::Enumerator),
    }
}

struct Found<'a> {
    members: Members<'a>,
    /// Candidates of each group, in the order of the types.
    candidates: Vec<Vec<Candidate>>,
}

/// A type (or enumerator) with a queried name.
struct Candidate {
    id: u32,
    at: u32,
    /// Value of an enumerator, else 0.
    value: i64,
}

impl Candidate {
    /// The offset fits: the section's length is a `u32` of the header.
    const fn new(id: u32, at: usize, value: i64) -> Self {
        let at = at as u32;
        Self { id, at, value }
    }
}

fn scan<'a, const LITTLE_ENDIAN: bool>(btf: &Btf<'a>, index: &NameIndex<'_>) -> Result<Found<'a>, Error> {
    let read = |bytes: [u8; 4]| {
        if LITTLE_ENDIAN {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        }
    };
    let lengths = lengths(btf);
    let types = btf.types;
    let mut candidates: Vec<Vec<Candidate>> = Vec::new();
    candidates.resize_with(index.groups.len(), Vec::new);
    let mut checkpoints = Vec::with_capacity(types.len() / (HEAD_BYTES * CHECKPOINT_TYPES) + 1);
    let longs = ["long unsigned int", "unsigned long", "long int", "long"].map(Name::new);
    let mut pointer_bytes = None;
    let (mut at, mut id) = (0_usize, 1_u32);
    while at < types.len() {
        let short = |needed| {
            Error::Short(crate::Error {
                layer: Layer::BtfTypes,
                offset: btf.types_at + at,
                needed,
                got: types.len() - at,
            })
        };
        let Some(&[n0, n1, n2, n3, i0, i1, i2, i3, s0, s1, s2, s3]) =
            types.get(at..).and_then(<[u8]>::first_chunk::<HEAD_BYTES>)
        else {
            return Err(short(HEAD_BYTES));
        };
        let info = read([i0, i1, i2, i3]);
        let kind = (info >> 24 & KIND_MASK) as usize;
        let count = info & COUNT_MASK;
        let len = if kind == FUNC as usize {
            // Nearly half of all types are functions. A predicted branch here avoids waiting for `lengths`.
            HEAD_BYTES
        } else {
            let (fixed, each) = lengths[kind];
            if fixed == 0 {
                return Err(Error::Kind {
                    kind: kind as u8,
                    id: TypeId(id),
                    offset: btf.types_at + at,
                });
            }
            // At most 267 + 255 * 2^24: more than a `usize` only where that has 32 bits.
            usize::try_from(u64::from(fixed) + u64::from(each) * u64::from(count)).unwrap_or(usize::MAX)
        };
        if len > types.len() - at {
            return Err(short(len));
        }
        if ((id - 1) as usize).is_multiple_of(CHECKPOINT_TYPES) {
            checkpoints.push(at as u32);
        }
        if index.kinds[kind] {
            let name_at = read([n0, n1, n2, n3]);
            let kind = kind as u32;
            if kind == INT {
                let is_long = |long: &Name<'_>| long.is_at(btf.strings, name_at);
                if pointer_bytes.is_none() && longs.iter().flatten().any(is_long) {
                    pointer_bytes = Some(read([s0, s1, s2, s3]));
                }
            } else {
                index.find(btf.strings, name_at, Space::of(kind), |group| {
                    push(&mut candidates, group, Candidate::new(id, at, 0));
                });
            }
            if index.enumerators && matches!(kind, ENUM | ENUM64) {
                for entry_at in (at + HEAD_BYTES..at + len).step_by(if kind == ENUM { 8 } else { 12 }) {
                    let Some(name_at) = btf.type_word(entry_at) else {
                        break;
                    };
                    index.find(btf.strings, name_at, Space::Enumerator, |group| {
                        if let Some(value) = enumerator_value(btf, info, entry_at) {
                            push(&mut candidates, group, Candidate::new(id, at, value));
                        }
                    });
                }
            }
        }
        at += len;
        id = id.saturating_add(1);
    }
    Ok(Found {
        members: Members {
            btf: *btf,
            lengths,
            checkpoints,
            pointer_bytes,
        },
        candidates,
    })
}

fn push(candidates: &mut [Vec<Candidate>], group: usize, candidate: Candidate) {
    if let Some(candidates) = candidates.get_mut(group)
        && candidates.len() < CANDIDATES_MAX
    {
        candidates.push(candidate);
    }
}

/// Most types of one name that are considered.
const CANDIDATES_MAX: usize = 16;
