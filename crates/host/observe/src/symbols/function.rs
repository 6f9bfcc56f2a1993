use super::demangle;
use std::borrow::Cow;

/// A function of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionSymbol<'a> {
    /// Its name, as in the symbol table.
    pub name: &'a [u8],
    /// File offset of its first instruction.
    pub offset: u64,
    /// Length in bytes; 0 if unknown.
    pub size: u64,
    /// Whether it only selects the real function at load time (`STT_GNU_IFUNC`).
    pub indirect: bool,
}

impl FunctionSymbol<'_> {
    /// Returns its name as in the source: Rust names without hash, C++ names with argument types.
    #[must_use]
    pub fn demangled(&self) -> Cow<'_, str> {
        demangle::demangled(self.name)
    }
}
