use super::super::kind::FUNC;
use super::super::tests::{Blob, kernel};
use super::super::{Btf, TypeId};
use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// An object's own types, by what its programs declare of the kernel's.
struct Object {
    blob: Blob,
    little_endian: bool,
    sock: u32,
    common_t: u32,
    endless: u32,
    itself: u32,
    function: u32,
    unnamed: u32,
}

/// A record of `.BTF.ext`: section, offset, type, access, kind.
type ExtRecord<'a> = (&'a str, u32, u32, &'a str, u32);

const FLAG: u32 = 1 << 31;

impl Object {
    fn new(little_endian: bool) -> Self {
        let mut blob = Blob::new(little_endian);
        let long = blob.int("unsigned long long", 8, 64);
        let int = blob.int("unsigned int", 4, 32);
        let byte = blob.int("unsigned char", 1, 8);
        let pointer = blob.head(PTR, "", 0, long);
        let inner = blob.structure(UNION, "", 8, &[("addrpair", long, 0), ("rcv_saddr", int, 0)]);
        let common = blob.structure(
            STRUCT,
            "sock_common",
            16,
            &[("", inner, 0), ("family", byte, 64), ("state", byte, 72)],
        );
        let constant = blob.head(CONST, "", 0, common);
        let common_t = blob.head(TYPEDEF, "common_t", 0, constant);
        let row = blob.array(int, 3);
        let sock = blob.structure(
            STRUCT | FLAG,
            "sock",
            64,
            &[
                ("__sk_common", common_t, 0),
                ("pointer", pointer, 128),
                ("high", int, 192 | 5 << 24),
                ("rows", row, 224),
                ("absent", int, 320),
            ],
        );
        // A typedef of the type after it, which is a typedef of this one.
        let endless = blob.head(TYPEDEF, "endless", 0, sock + 2);
        blob.head(TYPEDEF, "endless", 0, endless);
        let itself = blob.structure(STRUCT, "itself", 8, &[("itself", sock + 3, 0)]);
        let function = blob.head(FUNC, "function", 0, 0);
        let unnamed = blob.structure(STRUCT, "", 4, &[("member", int, 0)]);
        Self {
            blob,
            little_endian,
            sock,
            common_t,
            endless,
            itself,
            function,
            unnamed,
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        let at = self.blob.strings.len() as u32;
        self.blob.strings.extend(text.as_bytes());
        self.blob.strings.push(0);
        at
    }

    /// A `.BTF.ext` with each of these records in a section of its own, each with this length.
    fn ext(&mut self, records: &[ExtRecord<'_>], record_bytes: u32) -> Vec<u8> {
        let mut words = vec![record_bytes];
        for &(section, offset, id, access, kind) in records {
            words.extend([self.string(section), 1, offset, id, self.string(access), kind]);
            words.extend((16..record_bytes).step_by(4));
        }
        self.ext_of(&words)
    }

    /// The header, and these words as relocations, behind something else.
    fn ext_of(&self, words: &[u32]) -> Vec<u8> {
        let len = words.len() as u32 * 4;
        // hdr_len, func_info, line_info, core_relo
        let header = [32, 0, 8, 8, 0, 8, len];
        let magic: [u8; 2] = if self.little_endian {
            [0x9f, 0xeb]
        } else {
            [0xeb, 0x9f]
        };
        let mut bytes = [&magic[..], &[1, 0]].concat();
        for word in header.iter().chain(&[0xffff_ffff; 2]).chain(words) {
            bytes.extend(if self.little_endian {
                word.to_le_bytes()
            } else {
                word.to_be_bytes()
            });
        }
        bytes
    }
}

/// What reading these records gives, as text of the queries.
#[track_caller]
fn check(record: impl Fn(&Object) -> ExtRecord<'static>, expected: Option<(&str, &str, Option<u32>)>) {
    // Miri is too slow for both byte orders of each record.
    let orders = if cfg!(miri) { &[true][..] } else { &[true, false] };
    for &little_endian in orders {
        let mut object = Object::new(little_endian);
        let record = record(&object);
        let ext = object.ext(&[record], 16);
        let bytes = object.blob.finish();
        let read = read(&Btf::parse(&bytes).unwrap(), &ext);
        let Some((structure, path, size_bytes)) = expected else {
            assert_eq!(read, Err(Error::Unknown { at: 52 }), "{record:?}");
            continue;
        };
        let read = read.unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].section, read[0].offset_bytes), (record.0, record.1));
        assert_eq!(
            read[0].target,
            RelocationTarget::Field {
                structure,
                path: path.into(),
                size_bytes
            }
        );
    }
}

#[test]
fn field_paths_skip_unnamed_members_and_typedefs() {
    check(
        |it| ("raw_tp", 8, it.sock, "0:0:0:0", 0),
        Some(("sock", "__sk_common.addrpair", Some(8))),
    );
    check(
        |it| (".text", 16, it.sock, "0:0:1", 0),
        Some(("sock", "__sk_common.family", Some(1))),
    );
    check(
        |it| ("raw_tp", 0, it.common_t, "0:0:1", 1),
        Some(("sock_common", "rcv_saddr", Some(4))),
    );
    check(
        |it| ("raw_tp", 0, it.sock, "0:1", 2),
        Some(("sock", "pointer", Some(8))),
    );
    // Structs, arrays and bit fields may be of any size.
    check(
        |it| ("raw_tp", 0, it.sock, "0:0", 0),
        Some(("sock", "__sk_common", None)),
    );
    check(
        |it| ("raw_tp", 0, it.sock, "0:2", 4),
        Some(("sock", "high", None)),
    );
    check(
        |it| ("raw_tp", 0, it.sock, "0:3", 5),
        Some(("sock", "rows", None)),
    );
    check(
        |it| ("", 0, it.itself, "0:0:0", 0),
        Some(("itself", "itself.itself", None)),
    );
}

#[test]
fn access_to_no_field_is_an_error() {
    // Not from the first of several, not by a number, out of range, through a number, a pointer, an array.
    for access in [
        "",
        ":",
        "0",
        "1:0",
        "00:0",
        "0:",
        "0:x",
        "0:-1",
        "0:0x0",
        "0:5",
        "0:99999999999",
        "0:1:0",
        "0:3:0",
        "0:4:0",
        "0:0:0:0:0",
        "0:0:0:9",
    ] {
        check(|it| ("raw_tp", 0, it.sock, access, 0), None);
    }
    for id in [0, 1, 4, 9999, u32::MAX] {
        check(|_| ("raw_tp", 0, id, "0:0", 0), None);
    }
    check(|it| ("raw_tp", 0, it.endless, "0:0", 0), None);
    check(|it| ("raw_tp", 0, it.function, "0:0", 0), None);
    check(|it| ("raw_tp", 0, it.unnamed, "0:0", 0), None);
    // Nor are other types than structs and unions.
    check(|it| ("raw_tp", 0, it.function, "0", 7), None);
    check(|it| ("raw_tp", 0, it.endless, "0", 9), None);
    check(|it| ("raw_tp", 0, it.unnamed, "0", 9), None);
    // BPF_CORE_FIELD_SIGNED, TYPE_ID_LOCAL, TYPE_EXISTS, ENUMVAL_*, TYPE_MATCHES, and what is yet to come
    for kind in [3, 6, 8, 10, 11, 12, 13, u32::MAX] {
        check(|it| ("raw_tp", 0, it.sock, "0:1", kind), None);
    }
}

#[test]
fn recursive_struct_is_an_error() {
    // Its path would become longer than memory.
    let access = concat!(
        "0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0",
        ":0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0"
    );
    check(|it| ("raw_tp", 0, it.itself, access, 0), None);
}

#[test]
fn longer_records_of_many_sections_are_read() {
    for (little_endian, record_bytes) in [(true, 16), (false, 16), (true, 24), (false, 48)] {
        let mut object = Object::new(little_endian);
        let sock = object.sock;
        let records = [
            ("raw_tp", 8, sock, "0:1", 0),
            (".text", 16, sock, "0", 7),
            ("iter/tcp", 24, sock, "0", 9),
        ];
        let ext = object.ext(&records, record_bytes);
        let bytes = object.blob.finish();
        let found = read(&Btf::parse(&bytes).unwrap(), &ext).unwrap();
        let places: Vec<_> = found
            .iter()
            .map(|one| (one.section, one.offset_bytes, one.kind))
            .collect();
        assert_eq!(
            places,
            [
                ("raw_tp", 8, RelocationKind::FieldOffset),
                (".text", 16, RelocationKind::TypeId),
                ("iter/tcp", 24, RelocationKind::TypeSize)
            ]
        );
        assert_eq!(
            found[1].query(),
            Query::Type {
                kind: TypeKind::Struct,
                name: "sock"
            }
        );
        assert_eq!(found[2].query(), Query::Size { structure: "sock" });
    }
}

#[test]
fn object_without_relocations_has_none() {
    let object = Object::new(true);
    let bytes = object.blob.finish();
    let types = Btf::parse(&bytes).unwrap();
    let mut older = object.ext_of(&[16]);
    older[4] = 24; // a header from before them
    assert_eq!(read(&types, &older), Ok(vec![]));
    assert_eq!(read(&types, &object.ext_of(&[])), Ok(vec![]));
    assert_eq!(read(&types, &object.ext_of(&[16])), Ok(vec![]));
    // Records too short to be any.
    for short in [0, 1, 15] {
        let ext = object.ext_of(&[short, 0, 0]);
        assert_eq!(read(&types, &ext), Err(Error::Unknown { at: 40 }));
    }
}

/// Miri takes its time.
const STEP: usize = if cfg!(miri) { 97 } else { 1 };

#[test]
fn truncated_or_changed_bytes_never_panic() {
    for little_endian in [true, false] {
        let mut object = Object::new(little_endian);
        let sock = object.sock;
        let ext = object.ext(
            &[("raw_tp", 8, sock, "0:0:0:0", 0), (".text", 0, sock, "0:2", 4)],
            16,
        );
        let bytes = object.blob.finish();
        let types = Btf::parse(&bytes).unwrap();
        let whole = read(&types, &ext).unwrap();
        assert_eq!(whole.len(), 2);
        for len in (0..ext.len()).step_by(STEP) {
            match read(&types, &ext[..len]) {
                Err(Error::Btf(super::super::Error::Short(short))) => {
                    assert!(short.offset <= len && short.got < short.needed, "{len}: {short}");
                }
                other => panic!("{len}: {other:?}"),
            }
        }
        // The types cut: either they cannot be read, or not all of what is asked is there.
        for len in (0..bytes.len()).step_by(STEP) {
            if let Ok(types) = Btf::parse(&bytes[..len]) {
                assert!(read(&types, &ext).is_err(), "{len}");
            }
        }
        // Each byte of either something else.
        for at in (0..ext.len()).step_by(STEP) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bent = ext.clone();
                bent[at] = value;
                let _ = read(&types, &bent);
            }
        }
        for at in (0..bytes.len()).step_by(STEP) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bent = bytes.clone();
                bent[at] = value;
                if let Ok(types) = Btf::parse(&bent) {
                    let _ = read(&types, &ext);
                }
            }
        }
    }
}

/// On machines of 32 bits these sums overflow.
#[test]
fn overflowing_lengths_are_errors() {
    let object = Object::new(true);
    let bytes = object.blob.finish();
    let types = Btf::parse(&bytes).unwrap();
    let (sock, any) = (object.sock, 0);
    // The second record would lie past the end of everything.
    let ext = object.ext_of(&[u32::MAX, any, 2, 0, sock, any, 7, 0, sock, any, 7]);
    assert!(matches!(read(&types, &ext), Err(Error::Btf(_))));
    let ext = object.ext_of(&[16, any, u32::MAX, 0, sock, any, 7]);
    assert!(matches!(read(&types, &ext), Err(Error::Btf(_))));
    for place in [4, 24, 28] {
        for high in [0xff, 0xfe, 0x7f] {
            let mut ext = object.ext_of(&[16, any, 1, 0, sock, any, 7]);
            ext[place..place + 4].copy_from_slice(&[0xfc, 0xff, 0xff, high]);
            let _ = read(&types, &ext);
        }
    }
}

#[test]
fn unknown_type_kind_is_an_error() {
    let mut object = Object::new(true);
    let at = object.blob.finish().len() - object.blob.strings.len() - 24;
    object.blob.head(0x1f, "from the future", 0, 0);
    let bytes = object.blob.finish();
    let read = read(&Btf::parse(&bytes).unwrap(), &object.ext_of(&[16]));
    assert_eq!(read, Err(Error::Unknown { at }));
}

#[test]
fn value_depends_on_the_answer() {
    let kernel = kernel(true).finish();
    let kernel = Btf::parse(&kernel).unwrap();
    let ask = |kind, structure, path: &str, size_bytes| {
        let relocation = Relocation {
            section: "raw_tp",
            offset_bytes: 0,
            kind,
            target: RelocationTarget::Field {
                structure,
                path: path.into(),
                size_bytes,
            },
        };
        let answers = kernel.answer(&[relocation.query()]).unwrap();
        relocation.value(answers.get(0))
    };
    use RelocationKind::{FieldExists, FieldLeftShift, FieldOffset, FieldRightShift, FieldSize};
    let family = |kind, size| ask(kind, "sock", "__sk_common.family", size);
    assert_eq!(family(FieldOffset, Some(4)), Some(8));
    assert_eq!(family(FieldSize, None), Some(4));
    assert_eq!(family(FieldExists, Some(4)), Some(1));
    assert_eq!(family(FieldLeftShift, None), Some(32));
    assert_eq!(family(FieldRightShift, None), Some(32));
    // Of another size it is another field.
    assert_eq!(family(FieldOffset, Some(2)), None);
    assert_eq!(family(FieldExists, Some(2)), Some(0));
    // "high": bits 3 to 7 of a number of 4 bytes, or of whatever holds them.
    assert_eq!(ask(FieldExists, "sock", "high", None), Some(1));
    let shifts = [FieldLeftShift, FieldRightShift].map(|kind| ask(kind, "sock", "high", None));
    assert_eq!(shifts, [Some(64 - 8), Some(64 - 5)]);
    // Neither a bit field where a number is meant.
    assert_eq!(ask(FieldOffset, "sock", "high", Some(4)), None);
    // An array is longer than what is shifted.
    assert_eq!(ask(FieldLeftShift, "sock", "commons", None), None);
    for kind in [FieldOffset, FieldSize, FieldLeftShift, FieldRightShift] {
        assert_eq!(ask(kind, "sock", "absent", None), None);
        assert_eq!(ask(kind, "no_such", "family", None), None);
    }
    assert_eq!(ask(FieldExists, "sock", "absent", None), Some(0));
    assert_eq!(ask(FieldExists, "no_such", "family", None), Some(0));
}

#[test]
fn type_relocations_have_id_and_size() {
    let relocation = |kind| Relocation {
        section: "raw_tp",
        offset_bytes: 0,
        kind,
        target: RelocationTarget::Type {
            kind: TypeKind::Struct,
            name: "sock",
        },
    };
    let (id, size) = (
        relocation(RelocationKind::TypeId),
        relocation(RelocationKind::TypeSize),
    );
    assert_eq!(id.value(Some(Answer::Type(TypeId(7)))), Some(7));
    assert_eq!(size.value(Some(Answer::Size(0x100))), Some(0x100));
    // An answer to another query is none.
    assert_eq!(id.value(Some(Answer::Size(7))), None);
    assert_eq!(size.value(Some(Answer::Type(TypeId(7)))), None);
    assert_eq!(id.value(Some(Answer::Enumerator(7))), None);
    assert_eq!([id.value(None), size.value(None)], [None; 2]);
}
