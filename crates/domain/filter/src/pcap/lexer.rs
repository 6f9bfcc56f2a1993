//! The tokenizer of tcpdump's language.

use std::net::Ipv6Addr;
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A keyword or a name; a backslash before it forces a name
    Word(&'a str),
    Name(&'a str),
    Number(u32),
    /// `10.1`, `10.1.2`, `10.1.2.3`: the value of the parts, and their number
    Dotted(u32, u32),
    Ipv6(Ipv6Addr),
    Mac([u8; 6]),
    /// A symbol; `&&` becomes [`Word`](Self::Word) "and"
    Symbol(&'static str),
    /// Anything else
    Stray(&'a str),
    End,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn peek(mut self) -> (Token<'a>, Range<usize>) {
        self.next()
    }

    pub(super) fn next(&mut self) -> (Token<'a>, Range<usize>) {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let start = self.at + rest.len() - trimmed.len();
        let (token, len) = token(trimmed);
        self.at = start + len;
        (token, start..self.at)
    }
}

fn token(rest: &str) -> (Token<'_>, usize) {
    let Some(first) = rest.chars().next() else {
        return (Token::End, 0);
    };
    if let Some(found) = address(rest) {
        return found;
    }
    if first == '\\' {
        let end = rest[1..].find([' ', '!', '(', ')', '\n', '\t']);
        let len = end.map_or(rest.len(), |end| end + 1);
        return (Token::Name(&rest[1..len]), len);
    }
    if first.is_ascii_alphanumeric() {
        // A name ends with a letter, a digit or a dot.
        let len = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
            .unwrap_or(rest.len());
        let word = rest[..len].trim_end_matches(['-', '_']);
        return (classify(word), word.len());
    }
    for (symbol, token) in SYMBOLS {
        if rest.starts_with(symbol) {
            return (token.clone(), symbol.len());
        }
    }
    let len = first.len_utf8();
    (Token::Stray(&rest[..len]), len)
}

/// Reads an address with colons, or another form of Ethernet address.
fn address(rest: &str) -> Option<(Token<'_>, usize)> {
    let len = rest
        .find(|c: char| !(c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-')))
        .unwrap_or(rest.len());
    let mut text = &rest[..len];
    // `[4:2]` has a colon too.
    let mut tries = 0;
    while !text.is_empty() && tries < 2 {
        // The word must end here.
        let ends = !rest[text.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if ends {
            if let Some(mac) = mac(text) {
                return Some((Token::Mac(mac), text.len()));
            }
            if text.contains("::") || text.matches(':').count() == 7 || text.matches(':').count() == 6 {
                if let Ok(ip) = text.parse::<Ipv6Addr>() {
                    return Some((Token::Ipv6(ip), text.len()));
                }
                if text.matches(':').count() > 1 {
                    return Some((Token::Stray(text), text.len()));
                }
            }
        }
        tries += 1;
        text = text.trim_end_matches([':', '-', '.']);
    }
    None
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    if text.len() == 14 && text.matches('.').count() == 2 {
        for (place, part) in text.split('.').enumerate() {
            if part.len() != 4 {
                return None;
            }
            let [high, low] = u16::from_str_radix(part, 16).ok()?.to_be_bytes();
            *bytes.get_mut(2 * place)? = high;
            *bytes.get_mut(2 * place + 1)? = low;
        }
        return Some(bytes);
    }
    if text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        return Some(bytes);
    }
    let separator = [':', '-', '.']
        .into_iter()
        .find(|c| text.matches(*c).count() == 5)?;
    for (byte, part) in bytes.iter_mut().zip(text.split(separator)) {
        if part.is_empty() || part.len() > 2 {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    Some(bytes)
}

fn classify(word: &str) -> Token<'_> {
    if let Some(number) = number(word) {
        return Token::Number(number);
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        let parts: Option<Vec<u32>> = word.split('.').map(number).collect();
        if let Some(parts) = parts
            && (2..=4).contains(&parts.len())
            && parts.iter().all(|part| *part < 256)
        {
            let value = parts.iter().fold(0, |value, part| value << 8 | part);
            return Token::Dotted(value, parts.len() as u32);
        }
    }
    match NUMBERS.iter().find(|(name, _)| *name == word) {
        Some((_, number)) => Token::Number(*number),
        None => Token::Word(word),
    }
}

/// Parses a decimal, hexadecimal (`0x...`) or octal (`0...`) number.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// Longer symbols come first.
const SYMBOLS: [(&str, Token<'static>); 25] = [
    ("&&", Token::Word("and")),
    ("||", Token::Word("or")),
    (">=", Token::Symbol(">=")),
    ("<=", Token::Symbol("<=")),
    ("!=", Token::Symbol("!=")),
    ("==", Token::Symbol("=")),
    ("<<", Token::Symbol("<<")),
    (">>", Token::Symbol(">>")),
    ("!", Token::Word("not")),
    ("+", Token::Symbol("+")),
    ("-", Token::Symbol("-")),
    ("*", Token::Symbol("*")),
    ("/", Token::Symbol("/")),
    ("%", Token::Symbol("%")),
    (":", Token::Symbol(":")),
    ("[", Token::Symbol("[")),
    ("]", Token::Symbol("]")),
    ("<", Token::Symbol("<")),
    (">", Token::Symbol(">")),
    ("(", Token::Symbol("(")),
    (")", Token::Symbol(")")),
    ("=", Token::Symbol("=")),
    ("^", Token::Symbol("^")),
    ("&", Token::Symbol("&")),
    ("|", Token::Symbol("|")),
];

/// Named offsets, types and flags (`scanner.l` of libpcap).
const NUMBERS: [(&str, u32); 57] = [
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141),
    ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143),
    ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145),
    ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147),
    ("icmp6-certpathsolicit", 148),
    ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151),
    ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153),
    ("tcpflags", 13),
    ("tcp-fin", 1),
    ("tcp-syn", 2),
    ("tcp-rst", 4),
    ("tcp-push", 8),
    ("tcp-ack", 16),
    ("tcp-urg", 32),
    ("tcp-ece", 64),
    ("tcp-cwr", 128),
];
