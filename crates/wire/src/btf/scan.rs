//! The pass over all types: which of them are asked for, and where each lies.

use super::kind::{
    COUNT_MASK, ENUM, ENUM64, FUNC, HEAD_BYTES, INT, KIND_MASK, STRUCT, TYPEDEF, UNION, lengths,
};
use super::members::Members;
use super::name::Name;
use super::wanted::{Space, Wanted};
use super::{Answer, Answers, Btf, Error, Question, TypeId, TypeKind};
use crate::Layer;
use alloc::vec;
use alloc::vec::Vec;

/// See [`Btf::answer`].
pub(super) fn answer(btf: &Btf<'_>, questions: &[Question<'_>]) -> Result<Answers, Error> {
    let wanted = Wanted::new(questions);
    let found = if btf.little_endian {
        scan::<true>(btf, &wanted)?
    } else {
        scan::<false>(btf, &wanted)?
    };
    let mut answers = vec![None; questions.len()];
    for (group, candidates) in wanted.groups.iter().zip(&found.candidates) {
        let places = wanted.places.get(group.places.clone()).unwrap_or_default();
        if group.space == Space::Enumerator {
            for &place in places {
                if let (Some(answer), Some(first)) = (answers.get_mut(place), candidates.first()) {
                    *answer = Some(Answer::Enumerator(first.value));
                }
            }
            continue;
        }
        let mut best: Option<(usize, Vec<Option<Answer>>)> = None;
        for candidate in candidates {
            let answer = |&place: &usize| one(&found.members, candidate, questions.get(place)?);
            let of_this: Vec<_> = places.iter().map(answer).collect();
            let count = of_this.iter().flatten().count();
            if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, of_this));
            }
            if count == places.len() {
                break;
            }
        }
        let best = best.into_iter().flat_map(|(_, answers)| answers);
        for (&place, answer) in places.iter().zip(best) {
            if let Some(slot) = answers.get_mut(place) {
                *slot = answer;
            }
        }
    }
    Ok(Answers(answers))
}

/// What one type has to say to a question about its name.
fn one(members: &Members<'_>, candidate: &Candidate, question: &Question<'_>) -> Option<Answer> {
    let this = members.at(candidate.at)?;
    match *question {
        Question::Field { path, .. } => members.field(this, path).map(Answer::Field),
        Question::Size { .. } => {
            matches!(this.kind, STRUCT | UNION).then_some(Answer::Size(this.size_or_type))
        }
        Question::Type { kind, .. } => {
            let same = match kind {
                TypeKind::Struct => this.kind == STRUCT,
                TypeKind::Union => this.kind == UNION,
                TypeKind::Enum => matches!(this.kind, ENUM | ENUM64),
                TypeKind::Func => this.kind == FUNC,
                TypeKind::Typedef => this.kind == TYPEDEF,
            };
            same.then_some(Answer::Type(TypeId(candidate.id)))
        }
        Question::Enumerator { name, .. } => members
            .enumerator(this, &Name::new(name)?)
            .map(Answer::Enumerator),
    }
}

struct Found<'a> {
    members: Members<'a>,
    /// For each group, in the order of the types.
    candidates: Vec<Vec<Candidate>>,
}

/// A type (or enumerator) of a name that is asked for.
struct Candidate {
    id: u32,
    at: u32,
    /// Of an enumerator.
    value: i64,
}

impl Candidate {
    /// The section is shorter than 4 GiB: its length is a `u32` of the header.
    const fn new(id: u32, at: usize, value: i64) -> Self {
        let at = at as u32;
        Self { id, at, value }
    }
}

fn scan<'a, const LITTLE_ENDIAN: bool>(btf: &Btf<'a>, wanted: &Wanted<'_>) -> Result<Found<'a>, Error> {
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
    candidates.resize_with(wanted.groups.len(), Vec::new);
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
            // Nearly half of all types. A guess of the branch predictor here spares the wait for `lengths`.
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
        if wanted.kinds[kind] {
            let name_at = read([n0, n1, n2, n3]);
            let kind = kind as u32;
            if kind == INT {
                let is_long = |long: &Name<'_>| long.is_at(btf.strings, name_at);
                if pointer_bytes.is_none() && longs.iter().flatten().any(is_long) {
                    pointer_bytes = Some(read([s0, s1, s2, s3]));
                }
            } else {
                wanted.find(btf.strings, name_at, Space::of(kind), |group| {
                    push(&mut candidates, group, Candidate::new(id, at, 0));
                });
            }
            if wanted.enumerators && matches!(kind, ENUM | ENUM64) {
                for entry_at in (at + HEAD_BYTES..at + len).step_by(if kind == ENUM { 8 } else { 12 }) {
                    let Some(name_at) = btf.type_word(entry_at) else {
                        break;
                    };
                    wanted.find(btf.strings, name_at, Space::Enumerator, |group| {
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

/// The value of the enumerator at `at`. A negative one is known by the flag of its enum, which kernels before 6.0 never set.
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

/// Of so many types the place of one is kept: 32 KB for a kernel instead of 500, and a few steps to the others.
pub(super) const CHECKPOINT_TYPES: usize = 16;
/// Types of one name that are looked at.
const CANDIDATES_MAX: usize = 16;
