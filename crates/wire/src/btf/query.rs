//! Queries to a BTF blob, and their answers.

use alloc::vec::Vec;

/// A query. Unknown names are answered by `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query<'q> {
    /// Offset and size of a member.
    Field {
        /// Name of a struct or union.
        structure: &'q str,
        /// Members separated by dots: `icsk_inet.sk.__sk_common.skc_family`. Unnamed structs and unions in between
        /// are transparent, as in C; so are typedefs, qualifiers and tags, and an array means its first element.
        /// Pointers are not followed.
        path: &'q str,
    },
    /// Size of a struct or union.
    Size {
        /// Its name.
        structure: &'q str,
    },
    /// Id of a type, as the verifier and kfunc calls take it.
    Type {
        /// Kind of the type.
        kind: TypeKind,
        /// Its name.
        name: &'q str,
    },
    /// Number of parameters of the function type that a typedef names, or points to.
    Parameters {
        /// Name of the typedef.
        typedef: &'q str,
    },
    /// The value of an enumerator.
    Enumerator {
        /// Name of its enum; `None` for the first enumerator with that name in any enum, named or not.
        enumeration: Option<&'q str>,
        /// The name of the enumerator.
        name: &'q str,
    },
}

/// The kinds of types that can be queried by name.
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

/// The id of a type in its BTF. The first is 1; 0 means `void`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// Offset and size of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldAt {
    /// Offset from the start of the queried struct. For a bit field: of the word that contains it.
    pub offset_bytes: u32,
    /// Size of the member; of an array as a whole; for a bit field of the word that contains it (1, 2, 4 or 8). 0 for a
    /// flexible array.
    pub size_bytes: u32,
    /// Size of one element, if the member is an array.
    pub element_size_bytes: Option<u32>,
    /// The bits of that word, if the member is a bit field.
    pub bits: Option<Bits>,
}

/// A bit field in a word: `word >> shift & ((1 << size) - 1)`, with the word read in the kernel's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits {
    /// Bits below the field in its word, 0 to 63.
    pub shift: u8,
    /// Number of bits of the field, 1 to 64.
    pub size: u8,
}

/// The answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Answer to [`Query::Field`].
    Field(FieldAt),
    /// Answer to [`Query::Size`], in bytes.
    Size(u32),
    /// Answer to [`Query::Type`].
    Type(TypeId),
    /// Answer to [`Query::Parameters`].
    Parameters(u32),
    /// Answer to [`Query::Enumerator`]. An unsigned 64-bit value above `i64::MAX` is returned as the negative number
    /// with the same bits. Kernels before 6.0 do not mark signed enums: their -1 is returned as 4294967295.
    Enumerator(i64),
}

/// The answers to a list of queries, by the index of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers(pub(super) Vec<Option<Answer>>);

impl Answers {
    /// Returns the answer to the query at `index`; `None` if this kernel has no such type or member.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Answer> {
        self.0.get(index).copied().flatten()
    }

    /// Returns the answer to a [`Query::Field`] at `index`.
    #[must_use]
    pub fn field(&self, index: usize) -> Option<FieldAt> {
        match self.get(index)? {
            Answer::Field(at) => Some(at),
            _ => None,
        }
    }

    /// Returns the answer to a [`Query::Size`] at `index`, in bytes.
    #[must_use]
    pub fn size_bytes(&self, index: usize) -> Option<u32> {
        match self.get(index)? {
            Answer::Size(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the answer to a [`Query::Type`] at `index`.
    #[must_use]
    pub fn type_id(&self, index: usize) -> Option<TypeId> {
        match self.get(index)? {
            Answer::Type(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the answer to a [`Query::Parameters`] at `index`.
    #[must_use]
    pub fn parameters(&self, index: usize) -> Option<u32> {
        match self.get(index)? {
            Answer::Parameters(count) => Some(count),
            _ => None,
        }
    }

    /// Returns the answer to a [`Query::Enumerator`] at `index`.
    #[must_use]
    pub fn enumerator(&self, index: usize) -> Option<i64> {
        match self.get(index)? {
            Answer::Enumerator(value) => Some(value),
            _ => None,
        }
    }

    /// Iterates over all answers, in the order of the queries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Answer>> + '_ {
        self.0.iter().copied()
    }
}
