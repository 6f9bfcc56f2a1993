//! Demangles symbol names.

use cpp_demangle::{DemangleOptions, ParseOptions};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// Returns the name as in the source: Rust names without hash, C++ names with argument types, others unchanged. A version
/// suffix of the linker (`memcpy@@GLIBC_2.14`) is removed.
pub(super) fn demangled(name: &[u8]) -> Cow<'_, str> {
    let name = String::from_utf8_lossy(name);
    if let Some(clear) = rust(&name).or_else(|| cpp(&name)) {
        return Cow::Owned(clear);
    }
    match name.find('@') {
        Some(at) if at > 0 => Cow::Owned(name[..at].to_owned()),
        _ => name,
    }
}

fn rust(name: &str) -> Option<String> {
    if !name.starts_with(['_', 'Z', 'R']) || name.len() > MAX_MANGLED {
        return None;
    }
    let parsed = rustc_demangle::try_demangle(name).ok()?;
    let mut clear = Bounded::default();
    write!(clear, "{parsed:#}").ok()?;
    clear.name()
}

fn cpp(name: &str) -> Option<String> {
    let is_mangled = ["_Z", "__Z", "___Z", "_GLOBAL__"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if !is_mangled || name.len() > MAX_MANGLED {
        return None;
    }
    let plain = name.split('@').next().unwrap_or_default();
    let options = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let symbol = cpp_demangle::BorrowedSymbol::with_tail_and_options(plain.as_bytes(), &options);
    let (symbol, tail) = symbol.ok()?;
    if !tail.is_empty() {
        return None;
    }
    let options = DemangleOptions::new().no_return_type().recursion_limit(MAX_DEPTH);
    let mut clear = Bounded::default();
    symbol.structured_demangle(&mut clear, &options).ok()?;
    clear.name()
}

/// A string with a maximum length: a short mangled name can expand to gigabytes.
#[derive(Default)]
struct Bounded {
    text: String,
}

impl Bounded {
    /// Returns the name, unless it is empty: a name without parts (`_ZNE`) is valid for the parsers.
    fn name(self) -> Option<String> {
        Some(self.text).filter(|text| !text.is_empty())
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.text.len() + more.len() > MAX_DEMANGLED {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// The longest name that is demangled, in bytes.
const MAX_MANGLED: usize = 8 << 10;

/// The longest demangled name, in bytes; else the name stays mangled.
pub(super) const MAX_DEMANGLED: usize = 32 << 10;

/// The deepest nesting of types.
const MAX_DEPTH: u32 = 96;

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn demangles_cpp_and_rust_and_keeps_others() {
        for (mangled, clear) in [
            ("main", "main"),
            ("_start", "_start"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("__memcpy_chk@GLIBC_2.3.4", "__memcpy_chk"),
            ("_ZN3foo3barEid", "foo::bar(int, double)"),
            ("_ZN3foo3barEid.cold", "foo::bar(int, double) [clone .cold]"),
            ("_Z3maxIiET_S0_S0_", "max<int>(int, int)"),
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                "foo::example_function",
            ),
            ("main.(*Server).Serve", "main.(*Server).Serve"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("__ZNE", "__ZNE"),
            ("", ""),
        ] {
            assert_eq!(demangled(mangled.as_bytes()), clear, "{mangled}");
        }
    }

    #[test]
    fn name_that_expands_too_much_stays_mangled() {
        // Each argument is a function of the one before, twice: the text doubles with each.
        let mut name = String::from("_Z1fPFvvE");
        for at in 0..60 {
            let last = if at == 0 {
                "S_".to_owned()
            } else {
                format!("S{}_", base36(2 * at))
            };
            name.push_str(&format!("PFv{last}{last}E"));
        }
        let clear = demangled(name.as_bytes());
        assert!(clear.len() <= super::MAX_DEMANGLED, "{}", clear.len());
        let deep = format!("_Z1f{}i", "P".repeat(8_000));
        assert_eq!(demangled(deep.as_bytes()), deep);
    }

    fn base36(mut number: usize) -> String {
        let mut digits = Vec::new();
        number -= 1;
        loop {
            digits.push(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 36]);
            number /= 36;
            if number == 0 {
                break;
            }
        }
        digits.reverse();
        String::from_utf8(digits).unwrap()
    }
}
