//! One meaning per flag and one name per quantity in all commands: `docs/guide/interface.md` has every flag, column and key, and the exceptions.
//!
//! After an intended change run `UPDATE=1 scripts/run-tests interface::interface_page`: it writes the tables between `<!-- table: NAME -->`
//! and `<!-- end -->`. Exceptions are written by hand, with a reason.

use crate::fixtures::binary::words;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn tables_are_current() {
    let path = PathBuf::from(ROOT).join("docs/guide/interface.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut current = page.clone();
    for (name, table) in [
        ("flags", flag_table()),
        ("columns", column_table()),
        ("filters", filter_table()),
        ("keys", key_table()),
    ] {
        let begin = format!("<!-- table: {name} -->\n");
        let (before, rest) = current.split_once(&begin).unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        current = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&path, current).unwrap();
    }
    let mut differing = page.lines().zip(current.lines()).filter(|(old, new)| old != new);
    assert!(
        page == current,
        "a table of {} is not current; the first line that differs: {:?}",
        path.display(),
        differing.next()
    );
}

/// A letter is one flag everywhere, but in the commands that the table of letters names.
#[test]
fn short_flag_has_one_meaning() {
    let excepted = excepted("letters");
    let mut flags: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for option in options().into_iter().filter(|option| !option.short.is_empty()) {
        let pair = (format!("-{}", option.short), option.command.clone());
        if excepted.contains(&pair) {
            used.insert(pair);
        } else {
            flags.entry(pair.0).or_default().insert(option.long);
        }
    }
    for (letter, longs) in flags {
        assert_eq!(longs.len(), 1, "-{letter} is {longs:?}");
    }
    let unused: Vec<_> = excepted.difference(&used).collect();
    assert!(unused.is_empty(), "exceptions that no command needs: {unused:?}");
}

/// A long flag has one letter and one value everywhere. A command lacks the letter only if it has another meaning there.
#[test]
fn long_flag_has_one_letter_and_one_value() {
    let (letters, words) = (excepted("letters"), excepted("words"));
    let mut flags: BTreeMap<String, Vec<Flag>> = BTreeMap::new();
    for option in options() {
        flags.entry(option.long.clone()).or_default().push(option);
    }
    for (long, options) in &flags {
        let is_plain = |option: &&Flag| {
            let is_excepted = |set: &Exceptions, name: String| set.contains(&(name, option.command.clone()));
            !is_excepted(&words, format!("--{long}")) && !is_excepted(&letters, format!("-{}", option.short))
        };
        let plain: Vec<&Flag> = options.iter().filter(is_plain).collect();
        let values: BTreeSet<&str> = plain.iter().map(|option| &*option.value).collect();
        assert!(values.len() <= 1, "--{long} has the values {values:?}");
        let shorts: BTreeSet<&str> = plain.iter().map(|option| &*option.short).collect();
        let with: Vec<&&str> = shorts.iter().filter(|short| !short.is_empty()).collect();
        assert!(with.len() <= 1, "--{long} has the letters {shorts:?}");
        for option in plain.iter().filter(|option| option.short.is_empty()) {
            let taken = |short: &&str| letters.contains(&(format!("-{short}"), option.command.clone()));
            assert!(
                with.iter().all(|short| taken(short)),
                "--{long} has no letter in {}, but {with:?} elsewhere",
                option.command
            );
        }
    }
}

/// Where commands word a flag in their own way, the page says what they have in common.
#[test]
fn flag_with_several_descriptions_has_one_meaning_on_the_page() {
    let page = page();
    let (mut outcome, words) = (first_cells(&page, "meanings"), excepted("words"));
    let mut descriptions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for option in options() {
        let name = format!("--{}", option.long);
        if !words.contains(&(name.clone(), option.command)) {
            descriptions.entry(name).or_default().insert(option.help);
        }
    }
    for (flag, helps) in descriptions.iter().filter(|(_, helps)| helps.len() > 1) {
        assert!(
            outcome.remove(flag),
            "{flag} has several descriptions and no row: {helps:#?}"
        );
    }
    assert!(outcome.is_empty(), "rows that no flag needs: {outcome:?}");
}

/// Filters, `--columns` and `--sort` accept the same names.
#[test]
fn every_word_of_filters_is_a_column() {
    // Groups, and a condition without a value.
    const OTHER: &[&str] = &["exclude", "autobound", "peers"];
    // In `keepalive list`: the least of three columns.
    const OWN: &[&str] = &["idle"];
    let columns: Vec<Vec<String>> = definitions("column")
        .into_iter()
        .filter(|fields| fields[0] == "sockets")
        .collect();
    let is_name = |name: &str| {
        columns.iter().any(|fields| {
            let mut names = [&fields[1]].into_iter().map(String::as_str);
            let others = fields[3].split(' ').chain(fields[4].split(' '));
            names.any(|known| known == name || without_unit(known) == name)
                || others
                    .clone()
                    .any(|known| known == name || without_unit(known) == name)
        })
    };
    for word in definitions("word") {
        let name = &*word[0];
        if OTHER.contains(&name) || OWN.contains(&name) {
            continue;
        }
        let key = Some(&*word[1]).filter(|key| !key.is_empty());
        for name in [name].into_iter().chain(key).chain(word[2].split_whitespace()) {
            if name != "excl" {
                assert!(is_name(name), "{name} is no column of sockets");
            }
        }
    }
}

/// What can be shown can be filtered, but for the columns of which the page says why not.
#[test]
fn every_column_of_sockets_is_a_word_of_filters() {
    let page = page();
    let mut excepted = first_cells(&page, "unfiltered");
    let words = definitions("word");
    let is_word = |name: &str| {
        words.iter().any(|fields| {
            let others = fields[2].split_whitespace();
            let mut names = [&*fields[0], &*fields[1]].into_iter().chain(others);
            names.any(|known| known == name || without_unit(known) == name)
        })
    };
    let columns = definitions("column").into_iter();
    for fields in columns.filter(|fields| fields[0] == "sockets") {
        let name = &*fields[1];
        let is_excepted = excepted.remove(name) || name.starts_with("mptcp_");
        assert_ne!(
            is_word(name),
            is_excepted,
            "{name}: a word, or a row of the table \"unfiltered\""
        );
    }
    assert!(
        excepted.remove("mptcp_*") && excepted.is_empty(),
        "no such columns: {excepted:?}"
    );
}

/// A key is a number, a text or a list in all documents, and a number has one unit.
#[test]
fn key_has_one_shape_and_one_unit() {
    let page = page();
    let mut shapes = first_cells(&page, "shapes");
    let mut units = first_cells(&page, "units");
    let keys = keys();
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, uses) in &keys {
        let all: BTreeSet<&str> = uses.iter().map(|(_, shape)| &**shape).collect();
        if all.len() > 1 {
            assert!(shapes.remove(key), "{key} is {all:?}");
        }
        if all.contains("number") {
            names.entry(without_unit(key)).or_default().insert(key);
        }
    }
    for (name, keys) in names.iter().filter(|(_, keys)| keys.len() > 1) {
        assert!(units.remove(*name), "{name} has several units: {keys:?}");
    }
    assert!(shapes.is_empty(), "shapes that no key needs: {shapes:?}");
    assert!(units.is_empty(), "units that no key needs: {units:?}");
}

/// An option of a command; the short form, the value and the description may be empty.
struct Flag {
    command: String,
    short: String,
    long: String,
    value: String,
    help: String,
}

/// Flags and the commands in which they differ.
type Exceptions = BTreeSet<(String, String)>;

fn options() -> Vec<Flag> {
    let rows = definitions("option").into_iter();
    rows.map(|fields| {
        let [command, short, long, value, help] = fields.try_into().unwrap();
        Flag {
            command,
            short,
            long,
            value,
            help,
        }
    })
    .collect()
}

fn definitions(kind: &str) -> Vec<Vec<String>> {
    let all = words("definitions").ok().to_owned();
    let rows = all.lines().filter_map(|line| line.split_once('\t'));
    rows.filter(|(found, _)| *found == kind)
        .map(|(_, fields)| fields.split('\t').map(str::to_owned).collect())
        .collect()
}

fn page() -> String {
    std::fs::read_to_string(PathBuf::from(ROOT).join("docs/guide/interface.md")).unwrap()
}

/// Returns the rows of the table after `<!-- exceptions: NAME -->`.
fn rows<'a>(page: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = page
        .split_once(&format!("<!-- exceptions: {name} -->\n"))
        .unwrap();
    let lines = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

fn excepted(name: &str) -> Exceptions {
    let page = page();
    let mut all = Exceptions::new();
    for row in rows(&page, name) {
        for command in row[1].split(", ") {
            all.insert((
                row[0].trim_matches('`').to_owned(),
                command.trim_matches('`').to_owned(),
            ));
        }
    }
    all
}

fn first_cells(page: &str, name: &str) -> BTreeSet<String> {
    let rows = rows(page, name).into_iter();
    rows.flat_map(|row| {
        row[0]
            .split(", ")
            .map(|cell| cell.trim_matches('`').to_owned())
            .collect::<Vec<_>>()
    })
    .collect()
}

fn flag_table() -> String {
    let mut rows: BTreeMap<(String, String, String, String), BTreeSet<String>> = BTreeMap::new();
    for option in options() {
        rows.entry((option.long, option.short, option.value, option.help))
            .or_default()
            .insert(option.command);
    }
    let mut table = "| flag | letter | value | meaning | commands |\n|---|---|---|---|---|\n".to_owned();
    for ((long, short, value, help), commands) in rows {
        let code = |text: &str, sign: &str| match text {
            "" => String::new(),
            text => format!("`{sign}{}`", text.replace('|', "\\|")),
        };
        let commands: Vec<String> = commands.into_iter().collect();
        let _ = writeln!(
            table,
            "| `--{long}` | {} | {} | {} | {} |",
            code(&short, "-"),
            code(&value, ""),
            help.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*"),
            commands.join(", ")
        );
    }
    table
}

fn column_table() -> String {
    let mut table = "| column | also | heading | CSV fields | command |\n|---|---|---|---|---|\n".to_owned();
    for row in definitions("column") {
        let list = |text: &str| {
            let all: Vec<String> = text.split_whitespace().map(|name| format!("`{name}`")).collect();
            all.join(" ")
        };
        let fields = if row[4] == row[1] {
            String::new()
        } else {
            list(&row[4])
        };
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {fields} | {} |",
            row[1],
            list(&row[3]),
            row[2],
            row[0]
        );
    }
    table
}

fn filter_table() -> String {
    let mut table = "| word | JSON key | also |\n|---|---|---|\n".to_owned();
    for row in definitions("word") {
        let list = |text: &str| {
            let all: Vec<String> = text.split_whitespace().map(|name| format!("`{name}`")).collect();
            all.join(" ")
        };
        let _ = writeln!(table, "| `{}` | {} | {} |", row[0], list(&row[1]), list(&row[2]));
    }
    table
}

fn key_table() -> String {
    let mut table = "| key | value | documents |\n|---|---|---|\n".to_owned();
    for (key, uses) in keys() {
        let shapes: BTreeSet<&str> = uses.iter().map(|(_, shape)| &**shape).collect();
        let documents: BTreeSet<&str> = uses.iter().map(|(document, _)| &**document).collect();
        let (shapes, documents): (Vec<_>, Vec<_>) =
            (shapes.into_iter().collect(), documents.into_iter().collect());
        let _ = writeln!(
            table,
            "| `{key}` | {} | {} |",
            shapes.join(", "),
            documents.join(", ")
        );
    }
    table
}

/// Returns all keys of all schemas, each with the schemas that have it, and the kind of value in each.
fn keys() -> BTreeMap<String, BTreeSet<(String, String)>> {
    let mut schemas = BTreeMap::new();
    for entry in std::fs::read_dir(PathBuf::from(ROOT).join("docs/schema")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        schemas.insert(name, serde_json::from_str::<Value>(&text).unwrap());
    }
    let mut keys = BTreeMap::new();
    for (name, schema) in &schemas {
        gather(&schemas, name, schema, &mut keys);
    }
    keys
}

fn gather(
    schemas: &BTreeMap<String, Value>,
    document: &str,
    schema: &Value,
    keys: &mut BTreeMap<String, BTreeSet<(String, String)>>,
) {
    match schema {
        Value::Object(fields) => {
            for (key, property) in fields
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                let name = document.trim_end_matches(".schema.json");
                let name = if name == "defs" { "several" } else { name };
                let shape = shape(schemas, document, property);
                keys.entry(key.clone())
                    .or_default()
                    .insert((name.to_owned(), shape));
            }
            fields
                .values()
                .for_each(|value| gather(schemas, document, value, keys));
        }
        Value::Array(list) => list
            .iter()
            .for_each(|value| gather(schemas, document, value, keys)),
        _ => {}
    }
}

fn shape(schemas: &BTreeMap<String, Value>, document: &str, schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let (file, pointer) = reference.split_once('#').unwrap();
        let file = if file.is_empty() { document } else { file };
        return shape(schemas, file, schemas[file].pointer(pointer).unwrap());
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        let alternatives = schema[key].as_array().into_iter().flatten();
        let shapes: BTreeSet<String> = alternatives.map(|one| shape(schemas, document, one)).collect();
        if let (1, Some(only)) = (shapes.len(), shapes.first()) {
            return only.clone();
        }
    }
    match (schema["type"].as_str(), &schema["enum"], &schema["const"]) {
        (Some("array"), ..) => format!("list of {}", shape(schemas, document, &schema["items"])),
        (Some("integer" | "number"), ..) => "number".to_owned(),
        (Some(name), ..) => name.to_owned(),
        (None, Value::Array(_), _) | (None, _, Value::String(_)) => "string".to_owned(),
        (None, _, Value::Number(_)) => "number".to_owned(),
        (None, _, Value::Bool(_)) => "boolean".to_owned(),
        _ => "any".to_owned(),
    }
}

fn without_unit(name: &str) -> &str {
    const UNITS: &[&str] = &[
        "_bytes_per_s",
        "_segs_per_s",
        "_per_s",
        "_bytes",
        "_segs",
        "_us",
        "_ms",
        "_ns",
        "_s",
    ];
    let stripped = |unit: &&str| name.strip_suffix(*unit).filter(|rest| !rest.is_empty());
    UNITS.iter().find_map(stripped).unwrap_or(name)
}
