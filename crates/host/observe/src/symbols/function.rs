//! Entry of a symbol table. `symbol_tables.rs` reads it; `functions/selection.rs` compares its name with the
//! pattern, and takes the place of the uprobe from its offset.

use super::demangle;
use std::borrow::Cow;

/// A function of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionSymbol<'a> {
    /// Its name, as in the symbol table.
    pub(crate) name: &'a [u8],
    /// File offset of its first instruction.
    pub(crate) offset: u64,
    /// Length in bytes; 0 if unknown.
    pub(crate) size: u64,
    /// Whether it only selects the real function at load time (`STT_GNU_IFUNC`).
    pub(crate) indirect: bool,
}

impl FunctionSymbol<'_> {
    /// Returns its name as in the source: Rust names without hash, C++ names with argument types.
    pub(crate) fn demangled(&self) -> Cow<'_, str> {
        demangle::demangled(self.name)
    }
}
