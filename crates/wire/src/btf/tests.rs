use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// A blob written type by type.
pub(super) struct Blob {
    little_endian: bool,
    types: Vec<u8>,
    pub(super) strings: Vec<u8>,
    count: u32,
}

const FLAG: u32 = 1 << 31;
const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const FLOAT: u32 = 16;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;

impl Blob {
    pub(super) fn new(little_endian: bool) -> Self {
        Self {
            little_endian,
            types: vec![],
            strings: vec![0],
            count: 0,
        }
    }

    pub(super) fn word(&mut self, word: u32) {
        self.types.extend(if self.little_endian {
            word.to_le_bytes()
        } else {
            word.to_be_bytes()
        });
    }

    pub(super) fn words(&mut self, words: &[u32]) {
        for &word in words {
            self.word(word);
        }
    }

    /// Each use of a name adds a new string: the same text may be at several offsets.
    pub(super) fn name(&mut self, name: &str) {
        let at = if name.is_empty() {
            0
        } else {
            self.strings.len() as u32
        };
        if at != 0 {
            self.strings.extend(name.as_bytes());
            self.strings.push(0);
        }
        self.word(at);
    }

    /// The head of a type; its number.
    pub(super) fn head(&mut self, kind: u32, name: &str, count: usize, size_or_type: u32) -> u32 {
        self.name(name);
        self.word((kind & 0x7f) << 24 | kind & FLAG | count as u32);
        self.word(size_or_type);
        self.count += 1;
        self.count
    }

    pub(super) fn int(&mut self, name: &str, size: u32, bits: u32) -> u32 {
        let id = self.head(INT, name, 0, size);
        self.word(bits);
        id
    }

    pub(super) fn array(&mut self, element: u32, elements: u32) -> u32 {
        let id = self.head(ARRAY, "", 0, 0);
        self.words(&[element, 1, elements]);
        id
    }

    /// Members: name, type, offset in bits (with the size of a bit field on top).
    pub(super) fn structure(
        &mut self,
        kind: u32,
        name: &str,
        size: u32,
        members: &[(&str, u32, u32)],
    ) -> u32 {
        let id = self.head(kind, name, members.len(), size);
        for &(name, member, offset) in members {
            self.name(name);
            self.word(member);
            self.word(offset);
        }
        id
    }

    pub(super) fn enumeration(&mut self, kind: u32, name: &str, enumerators: &[(&str, u64)]) -> u32 {
        let id = self.head(kind, name, enumerators.len(), 4);
        for &(name, value) in enumerators {
            self.name(name);
            self.word(value as u32);
            if kind & 0x7f == ENUM64 {
                self.word((value >> 32) as u32);
            }
        }
        id
    }

    pub(super) fn finish(&self) -> Vec<u8> {
        self.finish_with(&[])
    }

    pub(super) fn finish_with(&self, layouts: &[u8]) -> Vec<u8> {
        let mut header = Self::new(self.little_endian);
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let header_bytes = if layouts.is_empty() { 24 } else { 32 };
        for word in [
            header_bytes,
            0,
            types,
            types,
            strings,
            types + strings,
            layouts.len() as u32,
        ] {
            header.word(word);
        }
        let magic = if self.little_endian {
            [0x9f, 0xeb]
        } else {
            [0xeb, 0x9f]
        };
        let header = &header.types[..header_bytes as usize - 4];
        [&magic[..], &[1, 0], header, &self.types, &self.strings, layouts].concat()
    }
}

/// A little of everything. 1 is `long`, 2 `int`.
pub(super) fn kernel(little_endian: bool) -> Blob {
    let mut blob = Blob::new(little_endian);
    let long = blob.int("long unsigned int", 8, 64);
    let int = blob.int("int", 4, 32);
    let byte = blob.int("unsigned char", 1, 8);
    blob.head(FWD, "sock", 0, 0);
    let proto = blob.head(FUNC_PROTO, "", 2, 0);
    blob.words(&[0, int, 0, long]);
    blob.head(FUNC, "sock", 0, proto);
    blob.head(VAR, "sock", 0, int);
    blob.word(1);
    blob.head(DATASEC, "sock", 1, 4);
    blob.words(&[7, 0, 4]);
    let float = blob.head(FLOAT, "double", 0, 8);
    // typedef const volatile restrict type_tag chain
    let tagged = blob.head(TYPE_TAG, "rcu", 0, int);
    let restricted = blob.head(RESTRICT, "", 0, tagged);
    let volatile = blob.head(VOLATILE, "", 0, restricted);
    let constant = blob.head(CONST, "", 0, volatile);
    let number = blob.head(TYPEDEF, "number_t", 0, constant);
    let pointer = blob.head(PTR, "", 0, long);
    let addresses = blob.structure(STRUCT, "", 8, &[("daddr", number, 0), ("rcv_saddr", int, 32)]);
    let pair = blob.structure(UNION, "", 8, &[("addrpair", long, 0), ("", addresses, 0)]);
    let common = blob.structure(
        STRUCT,
        "sock_common",
        16,
        &[("", pair, 0), ("family", int, 64), ("state", byte, 96)],
    );
    blob.head(DECL_TAG, "tag", 0, common);
    blob.word(0);
    let common_t = blob.head(TYPEDEF, "common_t", 0, common);
    let row = blob.array(int, 3);
    let rows = blob.array(row, 2);
    let commons = blob.array(common, 4);
    let flexible = blob.array(long, 0);
    blob.structure(
        STRUCT | FLAG,
        "sock",
        0x100,
        &[
            ("__sk_common", common_t, 0),
            ("pointer", pointer, 128),
            ("low", int, 192 | 3 << 24),
            ("high", int, 195 | 5 << 24),
            ("across", int, 205 | 7 << 24),
            ("wide", long, 256 | 33 << 24),
            ("rows", rows, 320),
            ("commons", commons, 512),
            ("float", float, 1024),
            ("flexible", flexible, 1088),
            ("odd", int, 1089),
            ("straddling", long, 1090 | 64 << 24),
        ],
    );
    blob.enumeration(
        ENUM,
        "state",
        &[("ESTABLISHED", 1), ("TIME_WAIT", 6), ("BIG", 0xffff_ffff)],
    );
    blob.enumeration(ENUM | FLAG, "", &[("MINUS", 0xffff_ffff), ("ESTABLISHED", 99)]);
    blob.enumeration(ENUM64, "flags", &[("FLAG_33", 1 << 33), ("ALL", u64::MAX)]);
    blob
}

fn field<'q>(structure: &'q str, path: &'q str) -> Query<'q> {
    Query::Field { structure, path }
}

fn of_type(kind: TypeKind, name: &str) -> Query<'_> {
    Query::Type { kind, name }
}

fn enumerator<'q>(enumeration: Option<&'q str>, name: &'q str) -> Query<'q> {
    Query::Enumerator { enumeration, name }
}

fn ask(blob: &Blob, query: Query<'_>) -> Option<Answer> {
    let bytes = blob.finish();
    let answers = Btf::parse(&bytes).unwrap().answer(&[query]).unwrap();
    answers.get(0)
}

/// Offset, size, size of an element, bits.
type Place = (u32, u32, Option<u32>, Option<(u8, u8)>);

/// Checks the place of a field of `sock`.
#[track_caller]
fn check(path: &str, expected: Option<Place>) {
    let found = ask(&kernel(true), field("sock", path));
    let expected = expected.map(|(offset_bytes, size_bytes, element_size_bytes, bits)| {
        Answer::Field(FieldAt {
            offset_bytes,
            size_bytes,
            element_size_bytes,
            bits: bits.map(|(shift, size)| Bits { shift, size }),
        })
    });
    assert_eq!(found, expected, "{path}");
}

#[test]
fn path_resolves_unnamed_members_typedefs_and_qualifiers() {
    check("__sk_common", Some((0, 16, None, None)));
    check("__sk_common.family", Some((8, 4, None, None)));
    check("__sk_common.state", Some((12, 1, None, None)));
    check("__sk_common.addrpair", Some((0, 8, None, None)));
    check("__sk_common.daddr", Some((0, 4, None, None)));
    check("__sk_common.rcv_saddr", Some((4, 4, None, None)));
    check("float", Some((128, 8, None, None)));
}

#[test]
fn path_through_pointer_or_number_is_none() {
    check("pointer", Some((16, 8, None, None)));
    for path in [
        "pointer.x",
        "float.x",
        "low.x",
        "daddr",
        "",
        ".",
        "__sk_common.",
        ".__sk_common",
        "__sk_common..family",
        "__sk",
        "__sk_commonx",
        "__sk_common\0",
        "none",
    ] {
        check(path, None);
    }
}

#[test]
fn array_has_element_size() {
    check("rows", Some((40, 24, Some(12), None)));
    check("commons", Some((64, 64, Some(16), None)));
    check("commons.state", Some((64 + 12, 1, None, None)));
    check("flexible", Some((136, 0, Some(8), None)));
}

#[test]
fn bit_field_is_in_the_smallest_aligned_word() {
    check("low", Some((24, 1, None, Some((0, 3)))));
    check("high", Some((24, 1, None, Some((3, 5)))));
    check("across", Some((24, 4, None, Some((13, 7)))));
    check("wide", Some((32, 8, None, Some((0, 33)))));
    check("odd", None);
    check("straddling", None);
}

#[test]
fn big_endian_bit_fields_are_counted_from_the_top() {
    let blob = kernel(false);
    for (path, offset, size, shift, bits) in [
        ("low", 24, 1, 5, 3),
        ("high", 24, 1, 0, 5),
        ("across", 24, 4, 12, 7),
    ] {
        let Some(Answer::Field(at)) = ask(&blob, field("sock", path)) else {
            panic!("{path}")
        };
        assert_eq!((at.offset_bytes, at.size_bytes), (offset, size), "{path}");
        assert_eq!(at.bits, Some(Bits { shift, size: bits }), "{path}");
    }
    let Some(Answer::Field(at)) = ask(&blob, field("sock", "__sk_common.rcv_saddr")) else {
        panic!()
    };
    assert_eq!((at.offset_bytes, at.size_bytes), (4, 4));
}

/// Before 4.20 structs had no flag, and integers fewer bits than bytes.
#[test]
fn old_bit_fields_are_integers_of_fewer_bits() {
    let mut blob = Blob::new(true);
    let five = blob.int("unsigned int", 4, 2 << 16 | 5);
    blob.structure(STRUCT, "old", 4, &[("five", five, 9)]);
    let expected = FieldAt {
        offset_bytes: 1,
        size_bytes: 1,
        element_size_bytes: None,
        bits: Some(Bits { shift: 3, size: 5 }),
    };
    assert_eq!(ask(&blob, field("old", "five")), Some(Answer::Field(expected)));
}

#[test]
fn pointer_size_is_that_of_long() {
    for (name, size) in [("unsigned long", Some(4)), ("int", None)] {
        let mut blob = Blob::new(true);
        blob.int(name, 4, 32);
        let pointer = blob.head(PTR, "", 0, 0);
        blob.structure(STRUCT, "s", 4, &[("p", pointer, 0)]);
        let found = ask(&blob, field("s", "p"));
        let found = found.map(|answer| match answer {
            Answer::Field(at) => at.size_bytes,
            other => panic!("{other:?}"),
        });
        assert_eq!(found, size);
    }
}

#[test]
fn types_sizes_and_enumerators_are_found() {
    let blobs = [true, false].map(|little_endian| kernel(little_endian).finish());
    let number = |value| Some(Answer::Enumerator(value));
    let id = |id| Some(Answer::Type(TypeId(id)));
    for (query, expected) in [
        (Query::Size { structure: "sock" }, Some(Answer::Size(0x100))),
        (
            Query::Size {
                structure: "sock_common",
            },
            Some(Answer::Size(16)),
        ),
        (Query::Size { structure: "state" }, None),
        (Query::Size { structure: "" }, None),
        (of_type(TypeKind::Struct, "sock"), id(25)),
        (of_type(TypeKind::Func, "sock"), id(6)),
        (of_type(TypeKind::Union, "sock"), None),
        (of_type(TypeKind::Typedef, "number_t"), id(14)),
        (of_type(TypeKind::Enum, "state"), id(26)),
        (of_type(TypeKind::Enum, "flags"), id(28)),
        (of_type(TypeKind::Struct, "state"), None),
        (of_type(TypeKind::Struct, ""), None),
        (enumerator(Some("state"), "TIME_WAIT"), number(6)),
        (enumerator(Some("state"), "BIG"), number(0xffff_ffff)),
        (enumerator(Some("state"), "MINUS"), None),
        (enumerator(None, "MINUS"), number(-1)),
        (enumerator(None, "ESTABLISHED"), number(1)),
        (enumerator(None, "FLAG_33"), number(1 << 33)),
        (enumerator(Some("flags"), "FLAG_33"), number(1 << 33)),
        (enumerator(Some("flags"), "ALL"), number(-1)),
        (enumerator(Some("sock"), "TIME_WAIT"), None),
        (enumerator(None, "state"), None),
    ] {
        for bytes in &blobs {
            let answers = Btf::parse(bytes).unwrap().answer(&[query]).unwrap();
            assert_eq!(answers.get(0), expected, "{query:?}");
        }
    }
}

#[test]
fn answers_have_the_order_of_the_queries() {
    let bytes = kernel(true).finish();
    let queries = [
        enumerator(None, "TIME_WAIT"),
        field("sock", "low"),
        field("none", "low"),
        of_type(TypeKind::Struct, "sock"),
        Query::Size { structure: "sock" },
        field("sock", "low"),
    ];
    let answers = Btf::parse(&bytes).unwrap().answer(&queries).unwrap();
    assert_eq!(answers.iter().len(), queries.len());
    assert_eq!(answers.enumerator(0), Some(6));
    assert_eq!(answers.field(1).map(|at| at.offset_bytes), Some(24));
    assert_eq!(answers.get(2), None);
    assert_eq!(answers.type_id(3), Some(TypeId(25)));
    assert_eq!(answers.size_bytes(4), Some(0x100));
    assert_eq!(answers.field(5), answers.field(1));
    assert_eq!((answers.field(0), answers.get(6)), (None, None));
}

#[test]
fn one_of_several_definitions_answers_all() {
    let mut blob = Blob::new(true);
    let int = blob.int("int", 4, 32);
    blob.structure(STRUCT, "twice", 4, &[("a", int, 0)]);
    blob.structure(STRUCT, "twice", 12, &[("b", int, 64), ("a", int, 32)]);
    blob.structure(STRUCT, "twice", 16, &[("b", int, 96), ("a", int, 0)]);
    let bytes = blob.finish();
    let (a, b, none) = (field("twice", "a"), field("twice", "b"), field("twice", "c"));
    let size = Query::Size { structure: "twice" };
    let id = of_type(TypeKind::Struct, "twice");
    for (queries, offset, expected) in [
        (vec![a, size, id], 0, (4, 2)),
        (vec![a, size, id, b], 4, (12, 3)),
        (vec![a, size, id, none, b], 4, (12, 3)),
        (vec![a, size, id, none], 0, (4, 2)),
    ] {
        let answers = Btf::parse(&bytes).unwrap().answer(&queries).unwrap();
        assert_eq!(answers.field(0).unwrap().offset_bytes, offset);
        assert_eq!(
            (answers.size_bytes(1).unwrap(), answers.type_id(2).unwrap().0),
            expected
        );
    }
}

/// Names that agree in their first eight bytes, or are the end of one another.
#[test]
fn whole_names_are_compared() {
    let mut blob = Blob::new(true);
    let names = ["inet_sock", "inet_soc", "inet_sockets", "inet_so", "k", "et_sock"];
    for (size, name) in (1..).zip(names) {
        blob.structure(STRUCT, name, size, &[]);
    }
    // Heads shared with the end of another string, as a linker might.
    let end = blob.strings.len() as u32 - 3;
    blob.structure(STRUCT, "", 77, &[]);
    let at = blob.types.len() - 12;
    blob.types[at..at + 4].copy_from_slice(&end.to_le_bytes());
    for (size, name) in (1..).zip(names) {
        assert_eq!(
            ask(&blob, Query::Size { structure: name }),
            Some(Answer::Size(size)),
            "{name}"
        );
    }
    assert_eq!(
        ask(&blob, Query::Size { structure: "ck" }),
        Some(Answer::Size(77))
    );
    for name in ["inet_sockx", "inet_", "inet_socket", "sock", "k\0et_sock"] {
        assert_eq!(ask(&blob, Query::Size { structure: name }), None, "{name}");
    }
}

#[test]
fn cyclic_types_terminate() {
    let mut blob = Blob::new(true);
    blob.head(TYPEDEF, "a", 0, 2);
    blob.head(TYPEDEF, "b", 0, 1);
    blob.structure(STRUCT, "typedefs", 4, &[("x", 1, 0)]);
    let this = blob.count + 1;
    blob.structure(
        STRUCT,
        "itself",
        4,
        &[("", this, 8), ("", this, 16), ("", this, 24), ("in", this, 8)],
    );
    let this = blob.count + 1;
    blob.array(this, 2);
    blob.structure(STRUCT, "arrays", 4, &[("x", this, 0)]);
    for (structure, path) in [
        ("typedefs", "x"),
        ("typedefs", "x.y"),
        ("itself", "none"),
        ("itself", "in.in.none"),
        ("arrays", "x"),
        ("arrays", "x.y"),
    ] {
        assert_eq!(ask(&blob, field(structure, path)), None, "{structure}.{path}");
    }
    // A member that ends behind its struct is none.
    assert_eq!(ask(&blob, field("itself", "in.in.in")), None);
}

#[test]
fn wide_forged_types_take_bounded_steps() {
    let mut blob = Blob::new(true);
    let this = blob.count + 1;
    blob.structure(
        UNION,
        "wide",
        4,
        &vec![("", this, 0); if cfg!(miri) { 12 } else { 4000 }],
    );
    assert_eq!(ask(&blob, field("wide", "none")), None);
}

#[test]
fn overflowing_size_is_none() {
    let mut blob = Blob::new(true);
    let int = blob.int("int", 4, 32);
    let big = blob.array(int, u32::MAX);
    blob.structure(
        STRUCT,
        "s",
        4,
        &[
            ("big", big, 0),
            ("far", int, u32::MAX - 7),
            ("missing", 99, 0),
            ("void", 0, 0),
        ],
    );
    for path in ["big", "missing", "void", "big.x", "far"] {
        assert_eq!(ask(&blob, field("s", path)), None, "{path}");
    }
}

#[test]
fn name_past_the_strings_is_ignored() {
    let mut blob = kernel(true);
    blob.structure(STRUCT, "", 5, &[("", 1, 0)]);
    let at = blob.types.len() - 24;
    for broken in [u32::MAX, blob.strings.len() as u32, blob.strings.len() as u32 - 1] {
        blob.types[at..at + 4].copy_from_slice(&broken.to_le_bytes());
        blob.types[at + 12..at + 16].copy_from_slice(&broken.to_le_bytes());
        assert_eq!(
            ask(&blob, Query::Size { structure: "sock" }),
            Some(Answer::Size(0x100))
        );
    }
}

#[test]
fn unknown_kind_is_an_error_with_its_offset() {
    let mut blob = kernel(true);
    let at = 24 + blob.types.len();
    let id = blob.head(21, "new", 2, 0);
    blob.words(&[1, 2, 3, 4]);
    let last = blob.structure(STRUCT, "after", 4, &[]);
    let bytes = blob.finish();
    let error = Btf::parse(&bytes).unwrap().answer(&[]).unwrap_err();
    assert_eq!(
        error,
        Error::Kind {
            kind: 21,
            id: TypeId(id),
            offset: at
        }
    );
    assert_eq!(
        alloc::format!("{error}"),
        alloc::format!("BTF type {id} at offset {at} is of unknown kind 21")
    );

    // Unless the blob itself says how long it is (7.1): 8 bytes, and 4 for each of what it counts.
    let mut layouts = [0; 22 * 4];
    layouts[21 * 4..21 * 4 + 2].copy_from_slice(&[8, 4]);
    let bytes = blob.finish_with(&layouts);
    let answers = Btf::parse(&bytes)
        .unwrap()
        .answer(&[of_type(TypeKind::Struct, "after")])
        .unwrap();
    assert_eq!(answers.type_id(0), Some(TypeId(last)));

    // Kind 0 is never a type.
    let mut blob = Blob::new(true);
    blob.head(0, "", 0, 0);
    assert!(matches!(
        Btf::parse(&blob.finish()).unwrap().answer(&[]),
        Err(Error::Kind {
            kind: 0,
            offset: 24,
            ..
        })
    ));
}

#[test]
fn bad_magic_or_version_is_an_error() {
    let good = kernel(true).finish();
    assert_eq!(Btf::parse(b"\x7fELF").unwrap_err(), Error::Magic([0x7f, b'E']));
    let mut other = good.clone();
    other[2] = 2;
    assert_eq!(Btf::parse(&other).unwrap_err(), Error::Version(2));
    let mut shortened = good.clone();
    shortened[4] = 20;
    let expected = crate::Error {
        layer: Layer::BtfHeader,
        offset: 0,
        needed: 24,
        got: 20,
    };
    assert_eq!(Btf::parse(&shortened).unwrap_err(), Error::Short(expected));
    let mut unended = good.clone();
    *unended.last_mut().unwrap() = b'x';
    assert_eq!(
        Btf::parse(&unended).unwrap_err(),
        Error::Short(crate::Error {
            layer: Layer::BtfStrings,
            offset: good.len(),
            needed: 1,
            got: 0
        })
    );
    for word in 1..6 {
        let mut far = good.clone();
        far[word * 4..word * 4 + 4].copy_from_slice(&[0xff; 4]);
        assert!(matches!(Btf::parse(&far), Err(Error::Short(_))), "word {word}");
    }
}

/// Found by fuzzing: it was said to need 0 bytes where it had 0.
#[test]
fn empty_section_past_the_end_is_missing_from_the_end() {
    let mut blob = kernel(true).finish();
    let len = blob.len();
    blob[8..12].copy_from_slice(&(len as u32).to_le_bytes()); // type_off
    blob[12..16].copy_from_slice(&[0; 4]);
    let expected = crate::Error {
        layer: Layer::BtfTypes,
        offset: len,
        needed: 24,
        got: 0,
    };
    assert_eq!(Btf::parse(&blob).unwrap_err(), Error::Short(expected));
}

/// Cut at every byte, a blob is refused; with its last types cut off, too.
#[test]
fn truncated_blob_is_an_error() {
    for little_endian in [true, false] {
        let blob = kernel(little_endian);
        let whole = blob.finish();
        for len in (0..whole.len()).step_by(if cfg!(miri) { 13 } else { 1 }) {
            let error = Btf::parse(&whole[..len]).unwrap_err();
            assert!(
                matches!(error, Error::Short(error) if error.got < error.needed && error.offset <= len),
                "{len}"
            );
        }
        let mut ends = 0;
        let step = if cfg!(miri) { 52 } else { 1 };
        for len in (0..blob.types.len()).step_by(step) {
            let mut cut = Blob::new(little_endian);
            cut.types = blob.types[..len].to_vec();
            cut.strings.clone_from(&blob.strings);
            match Btf::parse(&cut.finish()).unwrap().answer(&[field("sock", "low")]) {
                Ok(_) => ends += 1,
                Err(Error::Short(error)) => {
                    assert_eq!(error.layer, Layer::BtfTypes);
                    assert_eq!(error.offset + error.got, 24 + len);
                    assert!(error.needed > error.got);
                }
                Err(other) => panic!("{len}: {other}"),
            }
        }
        assert!(step > 1 || ends == blob.count);
    }
}

/// Each byte of a blob changed to several others: whatever comes, it comes without a panic.
#[test]
fn changed_bytes_never_panic() {
    let good = kernel(true).finish();
    let queries = [
        field("sock", "__sk_common.daddr"),
        field("sock", "commons.state"),
        field("sock", "across"),
        enumerator(None, "FLAG_33"),
        of_type(TypeKind::Struct, "sock_common"),
    ];
    for at in (0..good.len()).step_by(if cfg!(miri) { 297 } else { 1 }) {
        for wrong in [0, 1, 0x7f, 0x80, 0xff, good[at] ^ 1] {
            let mut bytes = good.clone();
            bytes[at] = wrong;
            let _ = Btf::parse(&bytes).map(|btf| btf.answer(&queries));
        }
    }
}

#[test]
fn enumerators_of_a_module_have_names_behind_those_of_the_kernel() {
    for little_endian in [true, false] {
        let mut kernel = Blob::new(little_endian);
        kernel.enumeration(ENUM, "skb_drop_reason", &[("SKB_DROP_REASON_NO_SOCKET", 3)]);
        let mut module = Blob::new(little_endian);
        module.strings.clone_from(&kernel.strings);
        module.enumeration(ENUM, "skb_drop_reason", &[]);
        module.enumeration(ENUM, "ovs_drop_reason", &[("OVS_DROP_LAST_ACTION", 0x2_0001)]);
        module.strings.drain(..kernel.strings.len());
        let (kernel, module) = (kernel.finish(), module.finish());
        let (kernel, module) = (Btf::parse(&kernel).unwrap(), Btf::parse(&module).unwrap());
        let found = module.module_enumerators(&kernel, "ovs_drop_reason").unwrap();
        assert_eq!(found, [(0x2_0001, "OVS_DROP_LAST_ACTION".into())]);
        let none = module
            .module_enumerators(&kernel, "mac80211_drop_reason")
            .unwrap();
        assert!(none.is_empty());
        // Alone its names are not where it says.
        assert!(module.enumerators("ovs_drop_reason").unwrap().is_empty());
    }
}
