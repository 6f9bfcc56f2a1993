//! Checks of JSON output against its schema.
#![allow(dead_code, reason = "each test uses some of these")]

use super::output::listing::Record;
use super::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::{Value, Value as Json, json};
use std::collections::BTreeSet;

/// Returns the validator of a schema, or of one of its definitions.
pub(crate) fn validator(schema: &str, part: Option<&str>) -> JSONSchema {
    let schema = schema_file::load(schema);
    let schema = match part {
        None => schema,
        Some(part) => json!({"$ref": format!("#/$defs/{part}"), "$defs": schema["$defs"]}),
    };
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap()
}

#[track_caller]
pub(crate) fn follows(validator: &JSONSchema, text: &str) -> Json {
    let value: Json = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if let Err(errors) = validator.validate(&value) {
        let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
        panic!("{errors:?} in {text}");
    }
    value
}

pub(crate) fn compiled(schema: &Value) -> JSONSchema {
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema)
        .unwrap()
}

/// Checks the whole document against the schema, each line too, and rows against `row`. The last line is the summary.
#[track_caller]
pub(crate) fn check(schema: &str, row: &str, document: &str, lines: &str) {
    let schema = schema_file::load(schema);
    let part = |name: &str| {
        let part = json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]});
        compiled(&part)
    };
    let (whole, row, line, last) = (compiled(&schema), part(row), part("line"), part("summary_line"));
    let assert = |validator: &JSONSchema, text: &str| {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let errors = validator.validate(&value).err().into_iter().flatten();
        let errors: Vec<String> = errors.map(|e| format!("{e} at {}", e.instance_path)).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{text}");
    };
    assert(&whole, document);
    let (rows, summary) = lines
        .trim_end()
        .rsplit_once('\n')
        .unwrap_or(("", lines.trim_end()));
    assert(&last, summary);
    for text in lines.lines() {
        assert(&line, text);
    }
    for text in rows.lines() {
        assert(&row, text);
    }
}

/// Checks that the keys in `documents` (JSON documents, or lines) are exactly the properties that `schema` describes.
#[track_caller]
pub(crate) fn check_keys(schema: &str, documents: &[String]) {
    // Absent in documents of an unknown host, as those of these tests are.
    let mut written: BTreeSet<String> = ["host", "boot_id"].map(str::to_owned).into();
    for document in documents {
        for line in document.lines().filter(|line| line.starts_with('{')) {
            gather_keys(
                &serde_json::from_str(line.trim_end_matches(',')).unwrap_or_default(),
                &mut written,
            );
        }
        gather_keys(&serde_json::from_str(document).unwrap_or_default(), &mut written);
    }
    let mut described = BTreeSet::new();
    let schema = schema_file::load(schema);
    gather_properties(&schema, &schema, &mut described);
    assert_eq!(described, written);
}

fn gather_keys(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                keys.insert(key.clone());
                gather_keys(value, keys);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| gather_keys(value, keys)),
        _ => {}
    }
}

/// Gathers the names of all properties of `part` of a schema; checks that each is described and that every object is closed.
fn gather_properties(schema: &Value, part: &Value, names: &mut BTreeSet<String>) {
    let Value::Object(fields) = part else {
        if let Value::Array(values) = part {
            values
                .iter()
                .for_each(|value| gather_properties(schema, value, names));
        }
        return;
    };
    // What extends open definitions closes the whole.
    let extends = fields
        .get("$ref")
        .and_then(Value::as_str)
        .is_some_and(|target| target.ends_with("_fields"));
    if extends {
        assert_eq!(fields["unevaluatedProperties"], json!(false), "{fields:?}");
    }
    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        if !extends && !is_open_definition(schema, part) {
            assert_eq!(fields["additionalProperties"], json!(false), "{fields:?}");
        }
        for (name, property) in properties {
            let target = referred(schema, property);
            let is_described = property.get("description").is_some() || property.get("$ref").is_some();
            assert!(is_described, "{name} has no description");
            if target["type"] == "integer" || target["type"] == "number" {
                assert!(
                    target["description"].as_str().unwrap().contains("Unit: "),
                    "{name} has no unit"
                );
            }
            names.insert(name.clone());
            gather_properties(schema, property, names);
        }
    }
    for (_, value) in fields.iter().filter(|(key, _)| *key != "properties") {
        gather_properties(schema, value, names);
    }
}

/// Whether this is a definition whose users add keys.
fn is_open_definition(schema: &Value, part: &Value) -> bool {
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    definitions
        .filter(|(name, _)| name.ends_with("_fields"))
        .any(|(_, definition)| std::ptr::eq(definition, part))
}

/// Checks that each JSON field of each column is described in the definition `row` of `schema`, that names, CSV fields
/// and headings are unique, and that each column is described.
#[track_caller]
pub(crate) fn check_columns<R: Record>(schema: &str, row: &str) {
    let schema = schema_file::load(schema);
    let (mut names, mut fields) = (BTreeSet::new(), BTreeSet::new());
    for column in R::columns() {
        assert!(names.insert(column.name), "{column:?} twice");
        assert!(!column.about.is_empty(), "{column:?} has no description");
        for field in column.csv_fields().iter().filter(|_| !column.is_part()) {
            assert!(fields.insert(*field), "CSV field {field} twice");
            let mut paths = column.json_paths().iter();
            assert!(
                paths.any(|path| is_csv_name_of(path, field)),
                "the CSV field {field} of {column:?} has another name in JSON"
            );
        }
        for path in column.json_paths() {
            let mut at = &schema["$defs"][row];
            for name in path.split('.') {
                at = described(&schema, at, name)
                    .unwrap_or_else(|| panic!("{path} of {column:?} is not in the schema"));
            }
        }
    }
}

/// Whether a CSV field has the name of a JSON field: the keys of its path with `_` between them. The keys of some objects are
/// unique and stand alone.
fn is_csv_name_of(path: &str, field: &str) -> bool {
    const ALONE: &[&str] = &["tcp_info", "memory", "totals", "rates", "process"];
    match (path, path.split_once('.')) {
        ("timer.kind", _) => field == "timer",
        ("options.set", _) => field == "socket_options",
        (_, Some(("mptcp_info", key))) => field.strip_prefix("mptcp_") == Some(key),
        (_, Some((object, key))) if ALONE.contains(&object) => field == key,
        // The column writes the whole object.
        (object @ ("local" | "peer"), None) => {
            field.strip_prefix(object).is_some_and(|key| key.starts_with('_'))
        }
        _ => field == path.replace('.', "_"),
    }
}

/// Returns the property `name` of an object's schema, or the schema that it refers to.
fn described<'a>(schema: &'a Value, object: &'a Value, name: &str) -> Option<&'a Value> {
    let alternatives = ["oneOf", "anyOf", "allOf"].into_iter();
    let target = referred(schema, object);
    let alternatives = alternatives
        .filter_map(|key| target.get(key).and_then(Value::as_array))
        .flatten();
    let mut candidates = [object, target]
        .into_iter()
        .chain(alternatives.map(|one| referred(schema, one)));
    candidates
        .find_map(|one| one.get("properties")?.get(name))
        .map(|property| referred(schema, property))
}

/// Returns the schema that `part` refers to; `part` itself if it refers to none.
fn referred<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap_or(part),
        None => part,
    }
}
