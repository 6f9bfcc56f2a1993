//! Thrift's compact protocol, as far as the metadata of Parquet needs it:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// A struct that is written field by field, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Struct {
    out: Vec<u8>,
    last_id: u8,
}

impl Struct {
    pub(super) fn i32(self, id: u8, number: i32) -> Self {
        self.integer(id, 5, number.into())
    }

    pub(super) fn i64(self, id: u8, number: i64) -> Self {
        self.integer(id, 6, number)
    }

    pub(super) fn boolean(mut self, id: u8, value: bool) -> Self {
        self.field(id, if value { 1 } else { 2 });
        self
    }

    pub(super) fn text(mut self, id: u8, text: &str) -> Self {
        self.field(id, TEXT);
        push_text(&mut self.out, text);
        self
    }

    pub(super) fn inner(mut self, id: u8, inner: Self) -> Self {
        self.field(id, STRUCT);
        self.out.extend_from_slice(&inner.finish());
        self
    }

    pub(super) fn structs(mut self, id: u8, items: Vec<Self>) -> Self {
        self.list(id, STRUCT, items.len());
        for item in items {
            self.out.extend_from_slice(&item.finish());
        }
        self
    }

    pub(super) fn integers(mut self, id: u8, items: &[i32]) -> Self {
        self.list(id, 5, items.len());
        for item in items {
            push_number(&mut self.out, zigzag((*item).into()));
        }
        self
    }

    pub(super) fn texts(mut self, id: u8, items: &[&str]) -> Self {
        self.list(id, TEXT, items.len());
        for item in items {
            push_text(&mut self.out, item);
        }
        self
    }

    /// Returns its bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }

    fn integer(mut self, id: u8, kind: u8, number: i64) -> Self {
        self.field(id, kind);
        push_number(&mut self.out, zigzag(number));
        self
    }

    fn list(&mut self, id: u8, kind: u8, len: usize) {
        self.field(id, 9);
        if len < 15 {
            self.out.push((len as u8) << 4 | kind);
        } else {
            self.out.push(0xf0 | kind);
            push_number(&mut self.out, len as u64);
        }
    }

    /// Begins a field: the distance of its id to the one before, and its kind. All distances here are small.
    fn field(&mut self, id: u8, kind: u8) {
        self.out.push((id - self.last_id) << 4 | kind);
        self.last_id = id;
    }
}

/// Appends a number, seven bits a byte, the lowest first.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

const fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

const TEXT: u8 = 8;
const STRUCT: u8 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_distance_kind_and_value() {
        let inner = Struct::default().boolean(1, true).boolean(2, false);
        let bytes = Struct::default()
            .i32(1, -1)
            .i64(4, 300)
            .text(5, "ab")
            .inner(7, inner)
            .integers(8, &[1, 2])
            .finish();
        let expected = [
            &[0x15, 1][..],
            &[0x36, 0xd8, 4],
            &[0x18, 2, b'a', b'b'],
            &[0x2c, 0x11, 0x12, 0],
            &[0x19, 0x25, 2, 4, 0],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn long_list_has_its_length_after_the_kind() {
        let bytes = Struct::default().integers(1, &[0; 15]).finish();
        assert_eq!(bytes[..3], [0x19, 0xf5, 15]);
        assert_eq!(
            Struct::default().texts(1, &["x"]).finish(),
            [0x19, 0x18, 1, b'x', 0]
        );
    }
}
