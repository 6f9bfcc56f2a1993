//! Log lines that are JSON: the journal's, `dmesg --json`, Docker's and those of log collectors.

use super::Message;

/// Takes the message out of a line of JSON: an object on one line, or one member of an object that is printed over several.
/// Returns whether the line is JSON.
pub(super) fn take<'l>(message: &mut Message<'l>) -> bool {
    let line = message.text;
    let is_object = line.starts_with('{') && line[1..].trim_start().starts_with('"');
    let is_member = line.starts_with('"') && line.contains("\":") | line.contains("\" :");
    if !is_object && !is_member {
        // Brackets and braces between the members.
        let is_frame = !line.is_empty() && line.bytes().all(|byte| b"{}[], ".contains(&byte));
        if is_frame {
            message.text = "";
        }
        return is_frame;
    }
    let text = TEXT_KEYS.iter().find_map(|key| value(line, key));
    message.time = TIME_KEYS
        .iter()
        .find_map(|key| value(line, key))
        .map(|value| match value {
            Value::Text(text) | Value::Bytes(text) => text,
        })
        .filter(|time| !time.is_empty());
    message.text = "";
    match text {
        Some(Value::Text(text)) => {
            message.text = text;
            message.is_escaped = true;
        }
        Some(Value::Bytes(bytes)) => {
            message.text = bytes;
            message.is_bytes = true;
        }
        None if is_object => {
            // Not an object of a log.
            message.text = line;
            message.time = None;
        }
        None => message.has_only_time = message.time.is_some(),
    }
    if let Some(Value::Text(program)) = value(line, "SYSLOG_IDENTIFIER") {
        message.program = Some(program);
    }
    true
}

/// A value of an object, as it is written.
enum Value<'l> {
    /// A number, or the content of a string with its escapes
    Text(&'l str),
    /// The numbers of an array of bytes
    Bytes(&'l str),
}

/// The value of this key.
fn value<'l>(line: &'l str, key: &str) -> Option<Value<'l>> {
    let mut from = 0;
    let rest = loop {
        let at = from + line[from..].find(key)?;
        from = at + key.len();
        let is_key = line[..at].ends_with('"') && line[from..].starts_with('"');
        if is_key && let Some(rest) = line[from + 1..].trim_start().strip_prefix(':') {
            break rest.trim_start();
        }
    };
    if let Some(text) = rest.strip_prefix('"') {
        let mut is_escaped = false;
        let end = text.bytes().position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        return Some(Value::Text(&text[..end]));
    }
    if let Some(bytes) = rest.strip_prefix('[') {
        return Some(Value::Bytes(bytes.split(']').next().unwrap_or(bytes)));
    }
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    Some(Value::Text(rest[..end].trim()))
}

/// Resolves the escapes of a string; invalid ones stay as they are.
pub(crate) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('n' | 'r' | 't') => out.push(' '),
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                let character = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(character.unwrap_or('\u{fffd}'));
            }
            Some(character) => out.push(character),
            None => {}
        }
    }
    out
}

/// The text of an array of bytes: `84,67,80`.
pub(crate) fn text_of_bytes(numbers: &str) -> String {
    let bytes: Vec<u8> = numbers
        .split(',')
        .map_while(|number| number.trim().parse().ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Keys with the message: the journal's, util-linux', Docker's, and those of collectors.
const TEXT_KEYS: [&str; 4] = ["MESSAGE", "msg", "log", "message"];
const TIME_KEYS: [&str; 4] = ["__REALTIME_TIMESTAMP", "time", "timestamp", "ts"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_escapes_are_resolved() {
        assert_eq!(unescaped(r#"a \"b\" \u0041\\"#), "a \"b\" A\\");
        assert_eq!(unescaped(r"\ud800\u12"), "\u{fffd}\u{12}");
        assert_eq!(unescaped("\\"), "");
    }

    #[test]
    fn bytes_become_text() {
        assert_eq!(text_of_bytes("84,67, 80"), "TCP");
        assert_eq!(text_of_bytes("84,67,999,1"), "TC");
        assert_eq!(text_of_bytes(""), "");
    }
}
