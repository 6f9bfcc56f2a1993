//! The tokenizer (`yylex()`) of words and lines.

use super::ParseError;

/// An iterator over the tokens of a filter, without their meaning.
pub(super) struct Lexer<'a> {
    words: std::slice::Iter<'a, String>,
    /// The rest of the file.
    file: &'a [u8],
    lines: usize,
    /// The current word or line,
    text: String,
    /// and the position in it.
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(words: &'a [String], file: Option<&'a str>) -> Self {
        Self {
            words: words.iter(),
            file: file.unwrap_or_default().as_bytes(),
            lines: 0,
            text: String::new(),
            at: 0,
        }
    }

    /// Returns the next token; `None` at the end.
    pub(super) fn token(&mut self) -> Result<Option<String>, ParseError> {
        loop {
            if let Some((token, rest)) = split(&self.text[self.at..]) {
                self.at = self.text.len() - rest.len();
                return Ok(Some(token));
            }
            self.at = 0;
            self.text = match self.words.next() {
                Some(word) => until_nul(word).to_owned(),
                None => match self.line()? {
                    Some(line) => line,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Returns the next line that is no comment. `ss` reads lines by `fgets` into [`LINE_MAX`] bytes.
    fn line(&mut self) -> Result<Option<String>, ParseError> {
        loop {
            if self.file.is_empty() {
                return Ok(None);
            }
            let newline = self.file.iter().position(|&byte| byte == b'\n');
            let len = newline.map_or(self.file.len(), |at| at + 1).min(LINE_MAX - 1);
            let (read, rest) = self.file.split_at(len);
            self.file = rest;
            self.lines += 1;
            // A C string: up to a NUL, and then without the newline.
            let line = read.split(|&byte| byte == 0).next().unwrap_or_default();
            match line {
                [] => return Err(ParseError::InvalidLine { line: self.lines }),
                line if line.len() == LINE_MAX - 1 => {
                    return Err(ParseError::LongLine { line: self.lines });
                }
                [b'#' | b'0', ..] => {}
                [line @ .., b'\n'] | line => return Ok(Some(String::from_utf8_lossy(line).into_owned())),
            }
        }
    }
}

/// Splits off the first token of `text` and the blank after it.
fn split(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches(BLANKS);
    if text.is_empty() {
        return None;
    }
    let mut token = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => token.extend(chars.next()),
            blank if BLANKS.contains(&blank) => break,
            plain => token.push(plain),
        }
    }
    Some((token, chars.as_str()))
}

/// Returns the text up to the first NUL, as a C string.
fn until_nul(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

const BLANKS: [char; 2] = [' ', '\t'];

/// `argbuf[1024]`
const LINE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(words: &[&str], file: Option<&str>) -> Result<Vec<String>, ParseError> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let mut lexer = Lexer::new(&words, file);
        std::iter::from_fn(|| lexer.token().transpose()).collect()
    }

    #[test]
    fn words_and_lines_split_at_blanks() {
        let check = |words: &[&str], file: Option<&str>, expected: &[&str]| {
            assert_eq!(tokens(words, file).unwrap(), expected, "{words:?} {file:?}");
        };
        check(&[], None, &[]);
        check(&["", " \t"], Some(""), &[]);
        check(
            &["dst 10.0.0.1", "and", "(a)"],
            None,
            &["dst", "10.0.0.1", "and", "(a)"],
        );
        check(&["a\\ b\\\\c", "d\\"], None, &["a b\\c", "d"]);
        check(&["\\", "\\("], None, &["", "("]);
        check(&["a\nb"], None, &["a\nb"]);
        check(
            &["x"],
            Some("a b\n# c\n0 d\n\n #e\nf"),
            &["x", "a", "b", "#e", "f"],
        );
        check(&[], Some("a\u{0}b\nc"), &["a", "c"]);
        check(&["a\u{0}b"], None, &["a"]);
    }

    #[test]
    fn long_line_is_an_error() {
        let check = |file: &str, expected: Result<usize, ParseError>| {
            assert_eq!(tokens(&[], Some(file)).map(|tokens| tokens.len()), expected);
        };
        check(&format!("\n{}\n", "a".repeat(1021)), Ok(1));
        check(&"a".repeat(1022), Ok(1));
        check(
            &format!("\n{}\n", "a".repeat(1022)),
            Err(ParseError::LongLine { line: 2 }),
        );
        check(
            &format!("#{}\n", "é".repeat(1021)),
            Err(ParseError::LongLine { line: 1 }),
        );
        check("a\n\u{0}b\n", Err(ParseError::InvalidLine { line: 2 }));
    }
}
