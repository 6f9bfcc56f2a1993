//! The character set of the locale: whether drawings may have characters beyond ASCII.

use std::ffi::OsString;

/// Returns whether our own drawings may have characters beyond ASCII, by `LC_ALL`, `LC_CTYPE` and `LANG`. The first that is not
/// empty counts, as in `locale(7)`. Without any it is true: containers set none of them, on terminals that show UTF-8.
#[must_use]
pub fn has_unicode() -> bool {
    is_unicode(&|name| std::env::var_os(name))
}

fn is_unicode(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let mut values = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    let Some(value) = values.find(|value| !value.is_empty()) else {
        return true;
    };
    let value = value.to_string_lossy().to_ascii_lowercase();
    // language[_territory][.codeset][@modifier]
    let name = value.split('@').next().unwrap_or_default();
    match name.split_once('.') {
        Some((_, codeset)) => matches!(codeset, "utf-8" | "utf8"),
        None => !matches!(name, "c" | "posix"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_variable_that_is_set_counts() {
        let check = |all: &str, ctype: &str, lang: &str, expected: bool| {
            let result = is_unicode(&|name| {
                let value = match name {
                    "LC_ALL" => all,
                    "LC_CTYPE" => ctype,
                    _ => lang,
                };
                (value != "-").then(|| value.into())
            });
            assert_eq!(result, expected, "{all} {ctype} {lang}");
        };
        check("-", "-", "-", true);
        check("C", "en_US.UTF-8", "en_US.UTF-8", false);
        check("POSIX", "-", "-", false);
        check("", "C", "en_US.UTF-8", false);
        check("", "", "C", false);
        check("C.UTF-8", "C", "C", true);
        check("C.utf8", "-", "-", true);
        check("-", "-", "de_DE.ISO-8859-1", false);
        check("-", "-", "sr_RS.UTF-8@latin", true);
        check("-", "-", "en_US", true);
    }
}
