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
    if is_object && take_members(message) {
        return true;
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

/// Takes the message out of an object on one line in one pass. `false`, and nothing is taken: it is not simple, because it has objects in it,
/// is cut, or has no message.
fn take_members<'l>(message: &mut Message<'l>) -> bool {
    let mut rest = message.text[1..].trim_start();
    let mut texts = [None; TEXT_KEYS.len()];
    let mut times = [None; TIME_KEYS.len()];
    let mut program = None;
    loop {
        let Some((key, behind)) = string(rest) else {
            return false;
        };
        let Some(behind) = behind.trim_start().strip_prefix(':') else {
            return false;
        };
        let behind = behind.trim_start();
        let (value, behind) = match behind.as_bytes().first() {
            Some(b'"') => match string(behind) {
                Some((text, behind)) => (Value::Text(text), behind),
                None => return false,
            },
            Some(b'[') => match behind[1..].split_once(']') {
                Some((bytes, behind)) if !bytes.contains(['"', '[', '{']) => (Value::Bytes(bytes), behind),
                _ => return false,
            },
            Some(b'{') | None => return false,
            Some(_) => {
                let end = memchr::memchr2(b',', b'}', behind.as_bytes()).unwrap_or(behind.len());
                (Value::Text(behind[..end].trim()), &behind[end..])
            }
        };
        let nth = |keys: &[&str]| keys.iter().position(|known| *known == key);
        if let Some(nth) = nth(&TEXT_KEYS) {
            texts[nth].get_or_insert(value);
        } else if let Some(nth) = nth(&TIME_KEYS) {
            times[nth].get_or_insert(value);
        } else if key == "SYSLOG_IDENTIFIER"
            && let Value::Text(name) = value
        {
            program.get_or_insert(name);
        }
        let behind = behind.trim_start();
        match behind.as_bytes().first() {
            Some(b',') => rest = behind[1..].trim_start(),
            Some(b'}') if behind.len() == 1 => break,
            _ => return false,
        }
    }
    let Some(text) = texts.into_iter().flatten().next() else {
        return false;
    };
    (message.text, message.is_escaped, message.is_bytes) = match text {
        Value::Text(text) => (text, true, false),
        Value::Bytes(bytes) => (bytes, false, true),
    };
    let time = times.into_iter().flatten().next();
    message.time = time
        .map(|(Value::Text(time) | Value::Bytes(time))| time)
        .filter(|time| !time.is_empty());
    message.program = program;
    true
}

/// The content of a string at the start of the text, with its escapes, and what is behind it.
fn string(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', &text.as_bytes()[from..])?;
        if text.as_bytes()[at] == b'"' {
            return Some((&text[..at], &text[at + 1..]));
        }
        // An escaped byte; a longer character begins with a byte that is neither.
        from = at + 2;
        if from > text.len() {
            return None;
        }
    }
}

/// A value of an object, as it is written.
#[derive(Debug, Clone, Copy)]
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
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let mut characters = rest[at + 1..].chars();
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
        rest = characters.as_str();
    }
    out.push_str(rest);
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
    fn objects_are_read_in_one_pass_as_by_searching() {
        let check = |line: &str, expected: Option<(&str, Option<&str>, Option<&str>)>| {
            let mut message = Message {
                text: line,
                ..Message::default()
            };
            let is_taken = take_members(&mut message);
            let found = is_taken.then_some((message.text, message.time, message.program));
            assert_eq!(found, expected, "{line}");
            let mut searched = Message {
                text: line,
                ..Message::default()
            };
            assert!(take(&mut searched), "{line}");
            if is_taken {
                assert_eq!(searched.text, message.text, "{line}");
            }
        };
        check(
            r#"{"MESSAGE":"a \"b\" \\","__REALTIME_TIMESTAMP":"17"}"#,
            Some((r#"a \"b\" \\"#, Some("17"), None)),
        );
        check(
            r#"{ "PRIORITY" : 4 , "msg" : "x", "SYSLOG_IDENTIFIER":"kernel", "time":12.5 }"#,
            Some(("x", Some("12.5"), Some("kernel"))),
        );
        check(
            r#"{"log":"b","MESSAGE":[84,67],"ts":"" }"#,
            Some(("84,67", None, None)),
        );
        check(r#"{"a":{"MESSAGE":"x"}}"#, None);
        check(r#"{"MESSAGE":"x","a":["b","c"]}"#, None);
        check(r#"{"MESSAGE":"cut"#, None);
        check(r#"{"MESSAGE":"x"} y"#, None);
        check(r#"{"a":"b"}"#, None);
        check("{\"a\":\"\\", None);
    }

    #[test]
    fn bytes_become_text() {
        assert_eq!(text_of_bytes("84,67, 80"), "TCP");
        assert_eq!(text_of_bytes("84,67,999,1"), "TC");
        assert_eq!(text_of_bytes(""), "");
    }
}
