//! What mails, pages, `grep` and exports put before a line.

use super::times::{is_date, is_month, is_weekday};
use super::{all_digits, first_word};
use crate::log_line::Message;

/// `> ` of a mail, `| ` of a table, a backtick of Markdown, `* ` of a list, quotation marks around the line
pub(super) fn quote(message: &mut Message<'_>) -> bool {
    let text = message.text;
    match text.as_bytes() {
        // `>` may be the end of a message, too.
        [b'>', ..] => {
            message.is_quoted = true;
            message.continue_with(text.trim_start_matches(['>', ' ']));
        }
        // A table and code end as they begin.
        [b'|', ..] => {
            message.is_quoted = true;
            message.continue_with(text.trim_matches(['|', ' ']));
        }
        [b'`', .., b'`'] => message.continue_with(text.trim_matches('`')),
        [b'`', b'[' | b'<', .., b'`', b','] => message.continue_with(text.trim_matches(['`', ','])),
        [b'*', b'*', b'[' | b'<', .., b'*', b'*'] => message.continue_with(text.trim_matches('*')),
        // Only before a time or a level: the rest of a wrapped line may begin so.
        [b'*' | b'-', b' ', b'[' | b'<', ..] => message.continue_with(&text[2..]),
        // A page that opens a quotation and ends it on another line.
        [b'"', ..] if is_weekday(first_word(&text[1..])) => {
            message.continue_with(text[1..].trim_end_matches('"'));
        }
        // Also an element of a list in JSON or of a program.
        [quote @ (b'"' | b'\''), b'[' | b'<', ..] => {
            let quote = char::from(*quote);
            let inside = text.trim_end_matches(',').strip_suffix(quote);
            let Some(inside) = inside.and_then(|text| text.strip_prefix(quote)) else {
                return false;
            };
            message.continue_with(inside);
        }
        // A whole line in quotation marks; a message, and the rest of a wrapped one, may begin with a quoted word.
        [b'"', .., b'"'] if text.matches('"').count() == 2 && text.contains(": ") => {
            message.continue_with(text.trim_matches('"'));
        }
        _ => return false,
    }
    true
}

/// `2025/6/8 00:39<TAB>kernel<TAB>text`: rows of a desktop's log viewer
pub(super) fn viewer_row(message: &mut Message<'_>) -> bool {
    let mut fields = message.text.splitn(3, '\t');
    let (Some(time), Some(program), Some(text)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    let is_time = time.split_once(' ').is_some_and(|(date, clock)| {
        let is_made_of = |word: &str, separator: char| {
            word.contains(separator)
                && word
                    .split(separator)
                    .all(|part| !part.is_empty() && all_digits(part))
        };
        is_made_of(date, '/') && is_made_of(clock, ':')
    });
    if is_time && !program.is_empty() {
        message.take_time(time);
        message.program = Some(program);
        message.continue_with(text);
    }
    is_time
}

/// `<code>`, `<pre>`, `<li>`: the source of a page
pub(super) fn tag_of_page(message: &mut Message<'_>) -> bool {
    let Some((tag, rest)) = message
        .text
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
    else {
        return false;
    };
    let is_tag = TAGS_OF_PAGES.contains(&tag.split(' ').next().unwrap_or(tag));
    if is_tag {
        message.continue_with(rest);
    }
    is_tag
}

/// What copies have at the end of a line: `<br>`, `</code>`, `[...]` and a backslash where it was cut.
pub(super) fn take_end(message: &mut Message<'_>) {
    match message.text.as_bytes().last() {
        Some(b'>') => end_tags_of_page(message),
        Some(b']') => {
            if let Some(text) = message.text.strip_suffix(" [...]") {
                message.text = text.trim_end();
            }
        }
        Some(b'\\') => {
            if let Some(text) = message.text.strip_suffix(" \\") {
                message.text = text.trim_end();
            }
        }
        // Bold text of Markdown that began on a line before.
        Some(b'*') => {
            if let Some(text) = message.text.strip_suffix("**")
                && !text.ends_with(['*', ' '])
                && !text.contains("**")
            {
                message.text = text.trim_end();
            }
        }
        _ => {}
    }
}

fn end_tags_of_page(message: &mut Message<'_>) {
    while let Some((rest, tag)) = message
        .text
        .strip_suffix('>')
        .and_then(|text| text.rsplit_once('<'))
        && TAGS_OF_PAGES.contains(&tag.trim_matches(['/', ' ']))
    {
        message.text = rest.trim_end();
    }
}

/// `[1] text` of a mail, `[] text` whose time was removed
pub(super) fn footnote(message: &mut Message<'_>) -> bool {
    let Some((inside, rest)) = message
        .text
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    else {
        return false;
    };
    // `[12] Timeout` is a bit of a PCIe error, `[5] not valid` the rest of a wrapped line.
    if inside.len() > 1 || !all_digits(inside) || !rest.contains(": ") {
        return false;
    }
    message.continue_with(rest);
    true
}

/// `MESSAGE=text` of `journalctl -o export` and `-o verbose`
pub(super) fn message_field(message: &mut Message<'_>) -> bool {
    let Some(text) = message.text.strip_prefix("MESSAGE=") else {
        return false;
    };
    message.continue_with(text);
    true
}

/// `/var/log/kern.log:12:` of `grep`
pub(super) fn file_name(message: &mut Message<'_>) -> bool {
    if message.time.is_some() {
        return false;
    }
    let Some((name, rest)) = message.text.split_once(':') else {
        return false;
    };
    let is_file =
        !name.contains(' ') && (name.starts_with('/') || name.contains(".log") || name.ends_with(".txt"));
    if !is_file {
        return false;
    }
    message.continue_with(rest);
    line_number(message);
    true
}

/// `12:` of `grep -n`, before a time
pub(super) fn line_number(message: &mut Message<'_>) -> bool {
    let Some((number, rest)) = message.text.split_once(':') else {
        return false;
    };
    let is_month = || rest.get(..3).is_some_and(is_month);
    let is_year = || rest.len() > 10 && rest.is_char_boundary(10) && is_date(&rest[..10]);
    if all_digits(number)
        && message.time.is_none()
        && (rest.starts_with(['[', '<']) || is_month() || is_year())
    {
        message.continue_with(rest);
        return true;
    }
    false
}

/// What pages put around a line of a log
const TAGS_OF_PAGES: [&str; 14] = [
    "b",
    "blockquote",
    "br",
    "code",
    "div",
    "kbd",
    "li",
    "p",
    "pre",
    "samp",
    "span",
    "strong",
    "td",
    "tt",
];
