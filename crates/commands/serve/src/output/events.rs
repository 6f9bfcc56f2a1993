//! Server-sent events: <https://html.spec.whatwg.org/multipage/server-sent-events.html>

/// Returns an event with data that may have several lines.
pub(crate) fn event(name: &str, id: u64, data: &[u8]) -> Vec<u8> {
    let mut out = format!("event: {name}\nid: {id}\n").into_bytes();
    for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out
}

/// A comment, which shows that the other end is still there.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";

#[cfg(test)]
mod tests {
    use super::event;

    #[test]
    fn each_line_of_data_has_its_field() {
        let out = event("flows", 7, b"{\"a\":[\n1,\n2\n]}\n");
        let expected = "event: flows\nid: 7\ndata: {\"a\":[\ndata: 1,\ndata: 2\ndata: ]}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
