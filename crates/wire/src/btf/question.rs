//! What can be asked of a BTF blob, and the answers.

use alloc::vec::Vec;

/// One question. Names that do not occur are answered by `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question<'q> {
    /// Where a member lies, and how big it is.
    Field {
        /// Name of a struct or union.
        structure: &'q str,
        /// Members separated by dots: `icsk_inet.sk.__sk_common.skc_family`. Unnamed structs and unions in between
        /// are looked through, as C does; so are typedefs, qualifiers and tags, and an array means its first element.
        /// Pointers are not followed.
        path: &'q str,
    },
    /// How big a struct or union is.
    Size {
        /// Its name.
        structure: &'q str,
    },
    /// The number of a type, as the verifier and kfunc calls take it.
    Type {
        /// What it is.
        kind: TypeKind,
        /// Its name.
        name: &'q str,
    },
    /// The value of an enumerator.
    Enumerator {
        /// The name of its enum; without one the first enumerator of that name in any enum, named or not.
        enumeration: Option<&'q str>,
        /// The name of the enumerator.
        name: &'q str,
    },
}

/// The kinds of types that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind {
    /// `struct`
    Struct,
    /// `union`
    Union,
    /// `enum`, of 32 or 64 bits
    Enum,
    /// A function
    Func,
    /// `typedef`
    Typedef,
}

/// The number of a type in its BTF. The first is 1; 0 means `void`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// Where a member lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldAt {
    /// From the start of the struct that was asked for. For bits: of the word that holds them.
    pub offset_bytes: u32,
    /// Of the member; of a whole array; for bits of the word that holds them (1, 2, 4 or 8). 0 for a flexible array.
    pub size_bytes: u32,
    /// Of one element, if the member is an array.
    pub element_size_bytes: Option<u32>,
    /// Which bits of that word, if the member is a bit field.
    pub bits: Option<Bits>,
}

/// Some bits of a word: `word >> shift & ((1 << size) - 1)`, the word read in the byte order of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// Bits below the field in its word, 0 to 63.
    pub shift: u8,
    /// How many bits the field has, 1 to 64.
    pub size: u8,
}

/// The answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// To [`Question::Field`].
    Field(FieldAt),
    /// To [`Question::Size`], in bytes.
    Size(u32),
    /// To [`Question::Type`].
    Type(TypeId),
    /// To [`Question::Enumerator`]. An unsigned one of 64 bits above `i64::MAX` comes as the negative number of the
    /// same bits. Kernels before 6.0 do not tell which enums are signed: their -1 comes as 4294967295.
    Enumerator(i64),
}

/// The answers to a list of questions, found by the place of each in that list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers(pub(super) Vec<Option<Answer>>);

impl Answers {
    /// The answer to the question at `place`; `None` where this kernel has no such thing.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<Answer> {
        self.0.get(place).copied().flatten()
    }

    /// Where the member asked for at `place` lies.
    #[must_use]
    pub fn field(&self, place: usize) -> Option<FieldAt> {
        match self.get(place)? {
            Answer::Field(at) => Some(at),
            _ => None,
        }
    }

    /// The size in bytes asked for at `place`.
    #[must_use]
    pub fn size_bytes(&self, place: usize) -> Option<u32> {
        match self.get(place)? {
            Answer::Size(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The type asked for at `place`.
    #[must_use]
    pub fn type_id(&self, place: usize) -> Option<TypeId> {
        match self.get(place)? {
            Answer::Type(id) => Some(id),
            _ => None,
        }
    }

    /// The value of the enumerator asked for at `place`.
    #[must_use]
    pub fn enumerator(&self, place: usize) -> Option<i64> {
        match self.get(place)? {
            Answer::Enumerator(value) => Some(value),
            _ => None,
        }
    }

    /// All answers, in the order of the questions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Answer>> + '_ {
        self.0.iter().copied()
    }
}
