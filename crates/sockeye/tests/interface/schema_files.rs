//! The files in docs/schema are valid JSON Schemas, refer only to what exists, and define nothing twice.

use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::{Value, json};
use sockeye_lab::{Skip, need};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
const RENDERED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/render");
const DEFS: &str = "defs.schema.json";

/// Returns all schemas by the names of their files.
fn schemas() -> BTreeMap<String, Value> {
    let files = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.ends_with(".schema.json"), "{name}");
        (
            name,
            serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(),
        )
    };
    let schemas: BTreeMap<String, Value> = files.map(|path| read(&path)).collect();
    assert!(
        schemas.len() > 10 && schemas.contains_key(DEFS),
        "{:?}",
        schemas.keys()
    );
    schemas
}

fn compile(schema: &Value) -> Result<JSONSchema, String> {
    let compiled = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema);
    compiled.map_err(|error| format!("{error} at {}", error.instance_path))
}

/// Calls `take` with the target of each reference in a schema.
fn each_reference<'a>(value: &'a Value, take: &mut impl FnMut(&'a str)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(target) if key == "$ref" => take(target),
                    value => each_reference(value, take),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| each_reference(value, take)),
        _ => {}
    }
}

#[test]
fn every_file_is_a_valid_schema() {
    assert!(compile(&json!({"type": "nonsense"})).is_err());
    for (file, schema) in schemas() {
        assert_eq!(
            schema["$schema"], "https://json-schema.org/draft/2020-12/schema",
            "{file}"
        );
        // A base other than the file's own address would lead relative references elsewhere.
        assert!(schema.get("$id").is_none(), "{file}");
        compile(&schema_without_references(&schema)).unwrap_or_else(|error| panic!("{file}: {error}"));
        if file == DEFS {
            continue;
        }
        let text = fs::read_to_string(Path::new(FOLDER).join(&file)).unwrap();
        let loaded = schema_file::load(&text);
        let whole = compile(&loaded).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(!whole.is_valid(&json!("no document")), "{file}");
        for name in loaded["$defs"]
            .as_object()
            .into_iter()
            .flat_map(|defs| defs.keys())
        {
            let part = json!({"$ref": format!("#/$defs/{name}"), "$defs": loaded["$defs"]});
            compile(&part).unwrap_or_else(|error| panic!("{file} {name}: {error}"));
        }
    }
}

/// Returns a schema that the meta-schema judges alike, and that is complete in itself.
fn schema_without_references(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match value {
                Value::String(_) if key == "$ref" => (key.clone(), json!("#")),
                value => (key.clone(), schema_without_references(value)),
            })
            .collect(),
        Value::Array(values) => values.iter().map(schema_without_references).collect(),
        value => value.clone(),
    }
}

#[test]
fn every_reference_resolves() {
    let schemas = schemas();
    let mut shared = BTreeSet::new();
    for (file, schema) in &schemas {
        each_reference(schema, &mut |target| {
            let (name, pointer) = target.split_once('#').unwrap();
            let name = if name.is_empty() { file } else { name };
            let found = schemas.get(name).and_then(|schema| schema.pointer(pointer));
            assert!(found.is_some(), "{file} refers to {target}");
            if name == DEFS {
                shared.insert(pointer);
            }
        });
    }
    for name in schemas[DEFS]["$defs"].as_object().unwrap().keys() {
        assert!(
            shared.contains(&*format!("/$defs/{name}")),
            "nothing refers to {name}"
        );
    }
}

#[test]
fn no_definition_is_written_twice() {
    let schemas = schemas();
    let mut seen = BTreeMap::new();
    for (file, schema) in &schemas {
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            // A local reference may mean another thing in each file.
            let mut is_local = false;
            each_reference(definition, &mut |target| is_local |= target.starts_with('#'));
            if is_local || definition.get("$ref").is_some() {
                continue;
            }
            if let Some(other) = seen.insert(definition.to_string(), (file, name)) {
                panic!("{name} of {file} is the same as {} of {}", other.1, other.0);
            }
        }
    }
}

/// `docs/guide/json-and-pipelines.md` shows how to validate a document: its program accepts a right one and refuses a wrong one.
#[test]
fn validator_of_the_guide_works() {
    need!(python_has_jsonschema());
    let guide = include_str!("../../../../docs/guide/json-and-pipelines.md");
    let (_, rest) = guide.split_once("```python\n").unwrap();
    let (program, _) = rest.split_once("```").unwrap();
    let accepts = |schema: &str, document: &str| {
        let mut python = Command::new("python3")
            .args(["-c", program, FOLDER, schema])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        python
            .stdin
            .take()
            .unwrap()
            .write_all(document.as_bytes())
            .unwrap();
        let output = python.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(error)
        }
    };
    let rendered = |name: &str| fs::read_to_string(Path::new(RENDERED).join(name)).unwrap();
    let document = rendered("sockets.json");
    accepts("sockets.schema.json", &document).unwrap();
    let wrong = document.replacen("\"netid\":", "\"no_such_key\":1,\"netid\":", 1);
    let error = accepts("sockets.schema.json", &wrong).unwrap_err();
    assert!(error.contains("no_such_key"), "{error}");
    let lines = rendered("sockets.jsonl");
    accepts("sockets.schema.json#/$defs/line", lines.lines().next().unwrap()).unwrap();
}

/// The library that most tools with JSON Schema are built on.
#[test]
fn python_accepts_the_schemas() {
    need!(python_has_jsonschema());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interface/schema_files.py");
    let outcome = Command::new("python3")
        .args([script, FOLDER, RENDERED])
        .output()
        .unwrap();
    assert!(
        outcome.status.success(),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    let outcome = String::from_utf8_lossy(&outcome.stdout);
    assert_eq!(outcome, format!("{} schemas\n", schemas().len()));
}

fn python_has_jsonschema() -> Result<(), Skip> {
    let import = Command::new("python3")
        .args(["-c", "import jsonschema, referencing"])
        .output();
    match import {
        Ok(outcome) if outcome.status.success() => Ok(()),
        _ => Err(Skip::new(
            "python3 with jsonschema and referencing is not installed",
        )),
    }
}
