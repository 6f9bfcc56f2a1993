//! Texts of kernel messages with placeholders.

/// Kinds of placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placeholder {
    /// A network interface.
    Interface,
    /// A port, in decimal.
    Port,
    /// An IPv4, IPv6 or hardware address, with or without a port.
    Address,
    /// A number, decimal or hexadecimal.
    Number,
    /// A word.
    Name,
    /// Anything.
    Text,
}

impl Placeholder {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Interface,
        Self::Port,
        Self::Address,
        Self::Number,
        Self::Name,
        Self::Text,
    ];

    /// The name between braces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Port => "port",
            Self::Address => "address",
            Self::Number => "number",
            Self::Name => "name",
            Self::Text => "text",
        }
    }

    fn takes(self, byte: u8) -> bool {
        match self {
            Self::Interface => byte.is_ascii_alphanumeric() || b"_.-@:".contains(&byte),
            Self::Port => byte.is_ascii_digit() || MASKS.contains(&byte),
            Self::Address => byte.is_ascii_alphanumeric() || b".:%[]/-*".contains(&byte),
            Self::Number => byte.is_ascii_hexdigit() || b"x-X*".contains(&byte),
            Self::Name => !byte.is_ascii_whitespace(),
            Self::Text => true,
        }
    }

    /// Length of the longest value at the beginning of a text. What a reporter wrote in the place of a value is a value too.
    fn reach(self, text: &str) -> usize {
        let mut reach = 0;
        loop {
            let from = reach;
            reach += redaction_len(&text[reach..]).unwrap_or(0);
            reach += text[reach..]
                .bytes()
                .position(|byte| !self.takes(byte))
                .unwrap_or(text.len() - reach);
            if reach == from || !text[reach..].starts_with(REDACTION_BEGINS) {
                return reach;
            }
        }
    }

    /// Whether the whole value fits.
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Number => {
                let digits = value.strip_prefix('-').unwrap_or(value);
                let hexadecimal = digits.strip_prefix("0x").unwrap_or(digits);
                !hexadecimal.is_empty() && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit())
                    || is_masked(hexadecimal)
                    || redaction_len(value) == Some(value.len())
            }
            Self::Port => {
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
                    || is_masked(value)
                    || redaction_len(value) == Some(value.len())
            }
            _ => !value.is_empty(),
        }
    }
}

/// What reporters write in the place of digits that they do not want to show: `XXXX`, `***`.
const MASKS: &[u8] = b"Xx*";

/// Whether a value was made unreadable by the reporter.
fn is_masked(value: &str) -> bool {
    value.len() >= 2 && value.bytes().all(|byte| MASKS.contains(&byte))
}

/// Length of what a reporter wrote in the place of a whole value, if the text begins with it: `<redacted>`, `<my MAC>`, `[REDACTED]`.
fn redaction_len(text: &str) -> Option<usize> {
    let close = match text.bytes().next()? {
        b'<' => b'>',
        b'[' => b']',
        b'{' => b'}',
        _ => return None,
    };
    let inner = text.bytes().skip(1).take(REDACTION_LEN_MAX);
    let len = inner
        .take_while(|byte| byte.is_ascii_alphabetic() || b" _-".contains(byte))
        .count();
    let inner = text.get(1..=len)?;
    let is_value = match close {
        b'>' | b'}' => inner.len() >= 2,
        // Driver names stand in brackets too: `[bnx2x]`.
        _ => REDACTIONS.iter().any(|word| inner.eq_ignore_ascii_case(word)),
    };
    (is_value && text.as_bytes().get(len + 1) == Some(&close)).then_some(len + 2)
}

/// How a [redaction](redaction_len) begins.
const REDACTION_BEGINS: [char; 3] = ['<', '[', '{'];
/// Letters of one, at most.
const REDACTION_LEN_MAX: usize = 24;
/// Words that stand in brackets in the place of a value.
const REDACTIONS: [&str; 6] = ["redacted", "removed", "hidden", "masked", "censored", "snip"];

/// A parsed text of the dictionary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pattern<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a str),
    Place(Placeholder),
}

impl<'a> Pattern<'a> {
    /// Parses a text; `{interface}` is a placeholder, everything else is literal.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.trim_end_matches(SENTENCE_ENDS);
        while let Some((literal, behind)) = rest.split_once('{') {
            if !literal.is_empty() {
                parts.push(Part::Literal(literal));
            } else if !parts.is_empty() {
                return Err("two placeholders touch".to_owned());
            }
            let (name, behind) = behind.split_once('}').ok_or("a brace is not closed")?;
            let place = Placeholder::ALL.into_iter().find(|place| place.name() == name);
            parts.push(Part::Place(
                place.ok_or_else(|| format!("there is no {{{name}}}"))?,
            ));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest));
        }
        Ok(Self { parts })
    }

    /// The values of its placeholders, if it matches the whole line. The search ends without a match when `budget` is spent.
    pub(crate) fn values<'l>(
        &self,
        line: &'l str,
        budget: &mut Budget,
    ) -> Option<Vec<(Placeholder, &'l str)>> {
        let mut values = Vec::new();
        matches_from(&self.parts, line, &mut values, budget).then_some(values)
    }

    /// The same if the end of the line is cut off, as pagers and terminals do. [`CUT_LITERALS_MIN`] bytes must be literal, and no
    /// placeholder before the cut may be one that takes anything: else a line of another message would match.
    pub(crate) fn values_of_cut<'l>(
        &self,
        line: &'l str,
        budget: &mut Budget,
    ) -> Option<Vec<(Placeholder, &'l str)>> {
        let lens = (1..=self.parts.len()).rev();
        lens.filter(|&len| !self.parts[..len].contains(&Part::Place(Placeholder::Text)))
            .find_map(|len| self.values_of_cut_at(len, line, budget))
    }

    /// The same if the cut is in the part that is the last one of this many.
    fn values_of_cut_at<'l>(
        &self,
        len: usize,
        line: &'l str,
        budget: &mut Budget,
    ) -> Option<Vec<(Placeholder, &'l str)>> {
        let (&last, before) = self.parts[..len].split_last()?;
        let literals = before.iter().map(|part| match part {
            Part::Literal(literal) => literal.len(),
            Part::Place(_) => 0,
        });
        let literals: usize = literals.sum();
        let is_whole = len == self.parts.len();
        let mut try_last = |last| {
            let parts = [before, &[last]].concat();
            let mut values = Vec::new();
            matches_from(&parts, line, &mut values, budget).then_some(values)
        };
        match last {
            Part::Place(_) if is_whole || literals < CUT_LITERALS_MIN => None,
            Part::Place(_) => try_last(last),
            Part::Literal(literal) => {
                let ends = (1..=literal.len() - usize::from(is_whole)).rev();
                let beginnings = ends
                    .take_while(|end| literals + end >= CUT_LITERALS_MIN)
                    .filter_map(|end| literal.get(..end));
                let mut beginnings = beginnings.filter(|beginning| line.ends_with(beginning));
                beginnings.find_map(|beginning| try_last(Part::Literal(beginning)))
            }
        }
    }
}

/// Bytes that may still be compared for one line, over all patterns: limits the cost of malicious lines, so that the cost of
/// a log grows with its length only.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    /// Enough for a line of this length in bytes. Each pattern may scan the rest of the line after each of its placeholders.
    pub(crate) const fn for_line(len: usize) -> Self {
        Self(SCANS_MAX * (len + SCAN_COST_MIN))
    }

    /// Bytes that are left.
    #[cfg(test)]
    pub(crate) const fn left(&self) -> usize {
        self.0
    }

    /// Counts a scan of this many bytes; `false`: the budget is spent.
    fn take(&mut self, scanned: usize) -> bool {
        let left = self.0.checked_sub(scanned + SCAN_COST_MIN);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// Tries the shortest value of each placeholder first.
fn matches_from<'l>(
    parts: &[Part<'_>],
    line: &'l str,
    values: &mut Vec<(Placeholder, &'l str)>,
    budget: &mut Budget,
) -> bool {
    let Some((&part, rest)) = parts.split_first() else {
        // The end of a sentence differs between kernel versions.
        return line.trim_end_matches(SENTENCE_ENDS).is_empty();
    };
    match part {
        Part::Literal(literal) => line
            .strip_prefix(literal)
            .is_some_and(|line| matches_from(rest, line, values, budget)),
        Part::Place(place) => {
            let reach = place.reach(line);
            let known = values.len();
            if !budget.take(reach) {
                return false;
            }
            let mut try_one = |end: usize| {
                // A number is checked byte by byte.
                let checked = if place == Placeholder::Number { end } else { 0 };
                if !line.is_char_boundary(end) || !budget.take(checked) {
                    return false;
                }
                let (value, behind) = line.split_at(end);
                if !place.accepts(value) {
                    return false;
                }
                values.truncate(known);
                values.push((place, value));
                matches_from(rest, behind, values, budget)
            };
            match rest.first() {
                // Only where the next literal piece begins.
                Some(Part::Literal(literal)) => {
                    let within = &line[..boundary(line, reach + literal.len())];
                    let mut from = boundary(within, 1);
                    while let Some(found) = within.get(from..).and_then(|text| find(text, literal)) {
                        if try_one(from + found) {
                            return true;
                        }
                        from = boundary(within, from + found + 1);
                    }
                    false
                }
                _ => {
                    let sentence = line[..boundary(line, reach)].trim_end_matches(SENTENCE_ENDS);
                    try_one(sentence.len()) || try_one(reach)
                }
            }
        }
    }
}

/// Where the literal is. It is short: preparing a search, as `str::find` does, would cost more than the search.
fn find(text: &str, literal: &str) -> Option<usize> {
    let (text, literal) = (text.as_bytes(), literal.as_bytes());
    let first = literal.first()?;
    let mut starts = (0..text.len()).filter(|&at| text[at] == *first);
    starts.find(|&at| text[at..].starts_with(literal))
}

/// The offset, or the next one at which a character begins.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len())
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(text.len())
}

/// Literal bytes by which a message is known whose end is cut off.
const CUT_LITERALS_MIN: usize = 24;
/// What may differ at the end of a text.
pub(crate) const SENTENCE_ENDS: [char; 4] = ['.', '!', ' ', '\r'];

/// Scans of a whole line by all patterns together. The examples of the dictionary need less than a quarter (see the tests).
const SCANS_MAX: usize = 320;
/// Cost of a scan in bytes, in addition to its length.
const SCAN_COST_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, line: &str, values: Option<&[&str]>) {
        let pattern = Pattern::parse(pattern).unwrap();
        let found = pattern.values(line, &mut Budget::for_line(line.len()));
        let found: Option<Vec<&str>> =
            found.map(|values| values.into_iter().map(|(_, value)| value).collect());
        assert_eq!(found.as_deref(), values, "{line}");
    }

    #[test]
    fn what_reporters_mask_is_still_a_number_or_an_address() {
        let flood = "TCP: {name}: Possible SYN flooding on port {port}. Sending cookies.";
        for port in ["XXXX", "xx", "****"] {
            let line =
                format!("TCP: request_sock_TCP: Possible SYN flooding on port {port}. Sending cookies.");
            check(flood, &line, Some(&["request_sock_TCP", port]));
        }
        check(
            flood,
            "TCP: a: Possible SYN flooding on port X8. Sending cookies.",
            None,
        );
        check("took {number} ms", "took XX ms", Some(&["XX"]));
        check("took {number} ms", "took 0xXXXX ms", Some(&["0xXXXX"]));
        check("took {number} ms", "took X ms", None);
        check(
            "from {address} on {interface}",
            "from 10.*.*.* on eth0",
            Some(&["10.*.*.*", "eth0"]),
        );
        check(
            "from {address} on {interface}",
            "from aa:bb:cc:XX:XX:XX on eth0",
            Some(&["aa:bb:cc:XX:XX:XX", "eth0"]),
        );
    }

    #[test]
    fn redacted_value_still_matches() {
        let text = "{interface}: authenticate with {address} (local address={address})";
        for redacted in [
            "<redacted>",
            "<my MAC>",
            "[REDACTED]",
            "00:11:22:<removed>",
            "<ip>:443",
        ] {
            let line = format!("wlan0: authenticate with {redacted} (local address={redacted})");
            check(text, &line, Some(&["wlan0", redacted, redacted]));
            let line = line.replace("wlan0", "<redacted>");
            check(text, &line, Some(&["<redacted>", redacted, redacted]));
        }
        check(
            "port {port} of {name} is {number}",
            "port <port> of <a name> is <redacted>",
            Some(&["<port>", "<a name>", "<redacted>"]),
        );
        check("from {address}", "from <1>", None);
        check("from {address}", "from <redacted", None);
        check("{interface} is up", "[bnx2x] is up", None);
        check("took {number} ms", "took <<redacted>> ms", None);
    }

    #[test]
    fn placeholders_accept_their_kind() {
        let flood = "TCP: {name}: Possible SYN flooding on port {port}. Sending cookies.";
        let line = "TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.";
        check(flood, line, Some(&["request_sock_TCP", "80"]));
        check(
            flood,
            line.trim_end_matches('.'),
            Some(&["request_sock_TCP", "80"]),
        );
        check(
            flood,
            "TCP: x: Possible SYN flooding on port 8o. Sending cookies.",
            None,
        );
        check("{interface}: link up", "eth0: link up", Some(&["eth0"]));
        check("{interface}: link up", "eth 0: link up", None);
        check("{interface}: link up", ": link up", None);
        check(
            "link of {interface} is {text}",
            "link of br-lan is up at 1 Gbps",
            Some(&["br-lan", "up at 1 Gbps"]),
        );
        check("usage count = {number}", "usage count = -1", Some(&["-1"]));
        check("usage count = {number}", "usage count = x", None);
        check(
            "from {address} to {address} gone",
            "from fe80::1%eth0 to [::1]:80 gone",
            Some(&["fe80::1%eth0", "[::1]:80"]),
        );
    }

    #[test]
    fn value_may_contain_the_next_literal() {
        check("a {text} of b", "a piece of a of b", Some(&["piece of a"]));
        check("{interface}: up", "eth0:1: up", Some(&["eth0:1"]));
    }

    #[test]
    fn sentence_end_is_optional() {
        check("no route for {name}", "no route for x.", Some(&["x"]));
        check("no route", "no route!", Some(&[]));
        check("no route", "no routes", None);
    }

    #[test]
    fn non_ascii_text_matches() {
        check("{text} is {name}", "größe is ünüm", Some(&["größe", "ünüm"]));
        check("{interface} is up", "größe is up", None);
        check("{interface}é", "ab\u{e9}", Some(&["ab"]));
    }

    #[test]
    fn slow_line_is_bounded() {
        let pattern = Pattern::parse("{text} {text} {text} {text} {text} {text} x").unwrap();
        let line = "a ".repeat(2_000);
        assert_eq!(pattern.values(&line, &mut Budget::for_line(line.len())), None);
    }

    #[test]
    fn bad_pattern_is_an_error() {
        for pattern in ["{interface", "{what}", "{name}{name}"] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
