//! The BTF of the running kernel: our answers, and what bpftool prints of the same file.

use super::btf_queries;
use sockeye_wire::btf::{Answer, Bits, Btf, FieldAt, Query, TypeId, TypeKind};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// Every query of the list, answered a second time from bpftool's text.
#[test]
fn listed_queries_are_answered_as_by_bpftool() {
    let Some((bytes, dump)) = kernel() else { return };
    let dump = Dump::parse(&dump);
    let queries = btf_queries::all();
    let answers = Btf::parse(&bytes).unwrap().answer(&queries).unwrap();
    let mut answered = 0;
    for (query, answer) in queries.iter().zip(answers.iter()) {
        assert_eq!(answer, dump.answer(query), "{query:?}");
        answered += usize::from(answer.is_some());
    }
    println!("{answered} of {} queries have an answer", queries.len());
    assert!(answered > queries.len() / 2);
}

/// Every member of every struct, every function, every enumerator, in one list of some 100,000 queries.
#[test]
fn all_queries_are_answered_as_by_bpftool() {
    let Some((bytes, dump)) = kernel() else { return };
    let dump = Dump::parse(&dump);
    let mut queries = Vec::new();
    for (&(tag, name), ids) in &dump.by_name {
        let [id] = ids[..] else { continue }; // which of several it is depends on what else is asked
        let this = &dump.types[&id];
        match tag {
            Tag::Aggregate => {
                queries.push(Query::Size { structure: name });
                let named = this.entries.iter().filter(|entry| entry.name != "(anon)");
                queries.extend(named.map(|entry| Query::Field {
                    structure: name,
                    path: entry.name,
                }));
            }
            Tag::Enum => queries.extend(this.entries.iter().map(|entry| Query::Enumerator {
                enumeration: Some(name),
                name: entry.name,
            })),
            Tag::Func => queries.push(Query::Type {
                kind: TypeKind::Func,
                name,
            }),
            Tag::Typedef => queries.push(Query::Type {
                kind: TypeKind::Typedef,
                name,
            }),
        }
    }
    let answers = Btf::parse(&bytes).unwrap().answer(&queries).unwrap();
    let mut bits = 0;
    for (query, answer) in queries.iter().zip(answers.iter()) {
        assert_eq!(answer, dump.answer(query), "{query:?}");
        assert!(answer.is_some(), "{query:?}");
        bits += usize::from(matches!(
            answer,
            Some(Answer::Field(FieldAt { bits: Some(_), .. }))
        ));
    }
    println!("{} queries, {bits} of them bit fields", queries.len());
    assert!(queries.len() > 10_000 && bits > 100);
}

/// The file, and bpftool's text of it.
fn kernel() -> Option<(Vec<u8>, String)> {
    if !Path::new(VMLINUX).exists() {
        println!("SKIP: no {VMLINUX}");
        return None;
    }
    let bpftool = ["/usr/sbin/bpftool", "/sbin/bpftool", "/usr/bin/bpftool"];
    let Some(bpftool) = bpftool.into_iter().find(|path| Path::new(path).exists()) else {
        println!("SKIP: no bpftool");
        return None;
    };
    let output = Command::new(bpftool)
        .args(["btf", "dump", "file", VMLINUX, "format", "raw"])
        .output();
    match output {
        Ok(output) if output.status.success() => Some((
            std::fs::read(VMLINUX).unwrap(),
            String::from_utf8(output.stdout).unwrap(),
        )),
        Ok(output) => {
            println!(
                "SKIP: bpftool: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            None
        }
        Err(error) => {
            println!("SKIP: bpftool: {error}");
            None
        }
    }
}

/// What bpftool prints, and a plain way to find things in it.
struct Dump<'a> {
    types: HashMap<u32, Printed<'a>>,
    by_name: HashMap<(Tag, &'a str), Vec<u32>>,
    /// In the order of the file.
    enums: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tag {
    Aggregate,
    Enum,
    Func,
    Typedef,
}

/// `[25] STRUCT 'sock' size=784 vlen=109`
struct Printed<'a> {
    kind: &'a str,
    values: HashMap<&'a str, &'a str>,
    entries: Vec<Entry<'a>>,
}

/// ` 'sk_shutdown' type_id=14 bits_offset=4208 bitfield_size=2`
struct Entry<'a> {
    name: &'a str,
    values: HashMap<&'a str, &'a str>,
}

impl<'a> Dump<'a> {
    fn parse(text: &'a str) -> Self {
        let mut dump = Self {
            types: HashMap::new(),
            by_name: HashMap::new(),
            enums: vec![],
        };
        let mut last = 0;
        for line in text.lines() {
            let values = line.split(' ').filter_map(|word| word.split_once('=')).collect();
            let name = line.split('\'').nth(1).unwrap_or("(anon)");
            let Some((id, rest)) = line.strip_prefix('[').and_then(|line| line.split_once("] ")) else {
                dump.types
                    .get_mut(&last)
                    .unwrap()
                    .entries
                    .push(Entry { name, values });
                continue;
            };
            last = id.parse().unwrap();
            let kind = rest.split(' ').next().unwrap();
            let tag = match kind {
                "STRUCT" | "UNION" => Some(Tag::Aggregate),
                "ENUM" | "ENUM64" => Some(Tag::Enum),
                "FUNC" => Some(Tag::Func),
                "TYPEDEF" => Some(Tag::Typedef),
                _ => None,
            };
            if tag == Some(Tag::Enum) {
                dump.enums.push(last);
            }
            if let Some(tag) = tag
                && name != "(anon)"
            {
                dump.by_name.entry((tag, name)).or_default().push(last);
            }
            let entries = vec![];
            dump.types.insert(
                last,
                Printed {
                    kind,
                    values,
                    entries,
                },
            );
        }
        dump
    }

    fn answer(&self, query: &Query<'_>) -> Option<Answer> {
        let first = |tag, name| self.by_name.get(&(tag, name)).map(|ids| ids[0]);
        match *query {
            Query::Size { structure } => {
                let size = self.types[&first(Tag::Aggregate, structure)?].number("size");
                Some(Answer::Size(size as u32))
            }
            Query::Field { structure, path } => {
                let mut id = first(Tag::Aggregate, structure)?;
                let (mut offset, mut size) = (0, 0);
                for name in path.split('.') {
                    assert_eq!(size, 0, "nothing lies inside of a bit field");
                    while self.types[&self.plain(id)].kind == "ARRAY" {
                        id = self.types[&self.plain(id)].number("type_id") as u32;
                    }
                    let (more, entry) = self.member(self.plain(id), name)?;
                    offset += more;
                    size = entry.number("bitfield_size");
                    id = entry.number("type_id") as u32;
                }
                Some(Answer::Field(self.field_at(id, offset as u64, size as u64)))
            }
            Query::Type { kind, name } => {
                let (tag, kinds): (_, &[&str]) = match kind {
                    TypeKind::Struct => (Tag::Aggregate, &["STRUCT"]),
                    TypeKind::Union => (Tag::Aggregate, &["UNION"]),
                    TypeKind::Enum => (Tag::Enum, &["ENUM", "ENUM64"]),
                    TypeKind::Func => (Tag::Func, &["FUNC"]),
                    TypeKind::Typedef => (Tag::Typedef, &["TYPEDEF"]),
                };
                let id = first(tag, name)?;
                kinds
                    .contains(&self.types[&id].kind)
                    .then_some(Answer::Type(TypeId(id)))
            }
            Query::Parameters { typedef } => {
                let mut id = self.plain(first(Tag::Typedef, typedef)?);
                if self.types[&id].kind == "PTR" {
                    id = self.plain(self.types[&id].number("type_id") as u32);
                }
                let found = &self.types[&id];
                (found.kind == "FUNC_PROTO").then(|| Answer::Parameters(found.number("vlen") as u32))
            }
            Query::Enumerator { enumeration, name } => {
                let ids = match enumeration {
                    Some(enumeration) => vec![first(Tag::Enum, enumeration)?],
                    None => self.enums.clone(),
                };
                let mut entries = ids.iter().flat_map(|id| &self.types[id].entries);
                let value = entries.find(|entry| entry.name == name)?.values["val"];
                // Those of 64 bits have C's suffix; unsigned ones are printed as they are.
                let value = value.trim_end_matches(['U', 'L']);
                let value = value
                    .parse()
                    .unwrap_or_else(|_| value.parse::<u64>().unwrap() as i64);
                Some(Answer::Enumerator(value))
            }
        }
    }

    fn field_at(&self, id: u32, offset: u64, size: u64) -> FieldAt {
        if size == 0 {
            let plain = &self.types[&self.plain(id)];
            return FieldAt {
                offset_bytes: (offset / 8) as u32,
                size_bytes: self.size(id),
                element_size_bytes: (plain.kind == "ARRAY")
                    .then(|| self.size(plain.number("type_id") as u32)),
                bits: None,
            };
        }
        let mut word = 8;
        while offset / word != (offset + size - 1) / word {
            word *= 2;
        }
        let before = (offset % word) as u8;
        let shift = if cfg!(target_endian = "big") {
            word as u8 - before - size as u8
        } else {
            before
        };
        FieldAt {
            offset_bytes: (offset / word * word / 8) as u32,
            size_bytes: (word / 8) as u32,
            element_size_bytes: None,
            bits: Some(Bits {
                shift,
                size: size as u8,
            }),
        }
    }

    fn member(&self, id: u32, name: &str) -> Option<(i64, &Entry<'a>)> {
        self.types[&id].entries.iter().find_map(|entry| {
            let offset = entry.number("bits_offset");
            if entry.name == name {
                return Some((offset, entry));
            }
            let inner = self.plain(entry.number("type_id") as u32);
            if entry.name != "(anon)" || !matches!(self.types[&inner].kind, "STRUCT" | "UNION") {
                return None;
            }
            self.member(inner, name)
                .map(|(more, entry)| (offset + more, entry))
        })
    }

    fn plain(&self, mut id: u32) -> u32 {
        while let "TYPEDEF" | "CONST" | "VOLATILE" | "RESTRICT" | "TYPE_TAG" = self.types[&id].kind {
            id = self.types[&id].number("type_id") as u32;
        }
        id
    }

    fn size(&self, id: u32) -> u32 {
        let this = &self.types[&self.plain(id)];
        match this.kind {
            "PTR" => size_of::<usize>() as u32,
            "ARRAY" => this.number("nr_elems") as u32 * self.size(this.number("type_id") as u32),
            _ => this.number("size") as u32,
        }
    }
}

impl Printed<'_> {
    fn number(&self, name: &str) -> i64 {
        self.values[name].parse().unwrap()
    }
}

impl Entry<'_> {
    /// 0 if it is not printed.
    fn number(&self, name: &str) -> i64 {
        self.values.get(name).map_or(0, |value| value.parse().unwrap())
    }
}
