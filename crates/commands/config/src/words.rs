//! The words of an alias.

/// Divides a text into words as a POSIX shell does: by blanks, except in quotes or behind a backslash. Nothing else is special: no
/// variable, pattern or command is replaced.
///
/// # Errors
/// If a quote has no end, or a backslash is the last character.
pub(crate) fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\\' => {
                let next = rest.next().ok_or("a '\\' is the last character")?;
                word.get_or_insert_default().push(next);
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or("a ' has no second one")? {
                        '\'' => break,
                        character => word.push(character),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or("a \" has no second one")? {
                        '"' => break,
                        '\\' => match rest.next().ok_or("a \" has no second one")? {
                            next @ ('"' | '\\' | '$' | '`') => word.push(next),
                            next => word.extend(['\\', next]),
                        },
                        character => word.push(character),
                    }
                }
            }
            character => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Joins words so that [`split`] returns them again.
pub(crate) fn join(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let check = |text: &str, expected: &[&str]| {
            let words = split(text).unwrap();
            assert_eq!(words, expected, "{text}");
            assert_eq!(split(&join(&words)).unwrap(), expected, "{text}");
        };
        check("", &[]);
        check("  flows\t-np  ", &["flows", "-np"]);
        check(
            "sockets 'state close-wait' \"a \\\" b\"",
            &["sockets", "state close-wait", "a \" b"],
        );
        check("a\\ b c''d ''", &["a b", "cd", ""]);
        check("'$(reboot)' `x` $HOME *", &["$(reboot)", "`x`", "$HOME", "*"]);
        check("\"a\\n\"", &["a\\n"]);
        for bad in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
