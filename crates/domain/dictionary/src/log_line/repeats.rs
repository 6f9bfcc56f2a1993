//! Lines by which a log says that others repeat: of syslogd, rsyslog, syslog-ng, the journal and the kernel's rate limit.

use super::message_of;

/// Repeats of the line before: `last message repeated 3 times`.
pub(crate) fn repeats(text: &str) -> Option<u64> {
    if let Some(rest) = text.strip_prefix(REPEATED) {
        return rest.split(' ').next()?.parse().ok();
    }
    // `Last message 'TCP: out of memory' repeated 3 times, suppressed by syslog-ng on web-1`
    let (_, rest) = text.strip_prefix("Last message '")?.rsplit_once("' repeated ")?;
    rest.split(' ').next()?.parse().ok()
}

/// `message repeated 5 times: [ text]`, `text (repeated 5 times)`: the text, and its number.
pub(crate) fn repeated(text: &str) -> (&str, u64) {
    let text = without_device(text);
    let in_brackets = text
        .strip_prefix("message repeated ")
        .and_then(|rest| rest.split_once(" times: ["))
        .and_then(|(number, rest)| Some((number.parse::<u64>().ok()?.max(1), rest.strip_suffix(']')?)));
    if let Some((times, text)) = in_brackets {
        return (message_of(text.trim()).text, times);
    }
    if !text.ends_with([')', ']']) {
        return (text, 1);
    }
    for (open, close) in [
        (" (repeated ", ")"),
        (" [repeated ", "]"),
        (" (message repeated ", ")"),
    ] {
        if let Some((text, rest)) = text.strip_suffix(close).and_then(|text| text.rsplit_once(open))
            && let Some(number) = rest.strip_suffix(" times").or_else(|| rest.strip_suffix(" time"))
            && let Ok(times) = number.parse::<u64>()
        {
            return (text.trim_end(), times.max(1));
        }
    }
    (text, 1)
}

/// Returns a message without the fields of its device, which Talos puts behind it: `text SUBSYSTEM=pci DEVICE=+pci:0000:08:00.1`.
fn without_device(text: &str) -> &str {
    let field = |text: &'_ str, name| {
        let (before, last) = text.rsplit_once(' ')?;
        last.starts_with(name).then_some(before.len())
    };
    let subsystem = field(text, "DEVICE=").and_then(|end| field(&text[..end], "SUBSYSTEM="));
    subsystem.map_or(text, |end| text[..end].trim_end())
}

/// `net_ratelimit: 12 callbacks suppressed`: unknown messages of any kind.
pub(crate) fn suppressed(text: &str) -> Option<u64> {
    let (head, number) = text.strip_suffix(" callbacks suppressed")?.split_once(": ")?;
    let is_limit = head.ends_with("ratelimit") || !head.contains(' ');
    is_limit.then(|| number.parse().ok())?
}

/// Begin of a line about repeats.
pub(super) const REPEATED: &str = "last message repeated ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeat_lines_are_parsed() {
        assert_eq!(repeats("last message repeated 3 times"), Some(3));
        assert_eq!(
            repeats("Last message 'TCP: it's' repeated 3 times, suppressed by syslog-ng on web-1"),
            Some(3)
        );
        assert_eq!(repeats("the last message"), None);
        let line = "Nov 20 12:00:01 web-1 last message repeated 3 times";
        assert_eq!(repeats(message_of(line).text), Some(3));
        assert_eq!(
            repeated("message repeated 5 times: [ TCP: out of memory]"),
            ("TCP: out of memory", 5)
        );
        assert_eq!(
            repeated("TCP: out of memory (repeated 12 times)"),
            ("TCP: out of memory", 12)
        );
        assert_eq!(
            repeated("TCP: hang SUBSYSTEM=usb DEVICE=c189:10"),
            ("TCP: hang", 1)
        );
        for other in ["TCP DEVICE=x", "SUBSYSTEM=a DEVICE=b", "TCP SUBSYSTEM=a B"] {
            assert_eq!(repeated(other), (other, 1));
        }
        assert_eq!(repeated("TCP (repeated often)"), ("TCP (repeated often)", 1));
        assert_eq!(repeated("message repeated 0 times: [ TCP]"), ("TCP", 1));
        assert_eq!(repeated("TCP"), ("TCP", 1));
        assert_eq!(suppressed("net_ratelimit: 12 callbacks suppressed"), Some(12));
        assert_eq!(suppressed("TCP: 12 callbacks"), None);
    }
}
