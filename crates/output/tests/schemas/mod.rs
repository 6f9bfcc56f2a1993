//! What is told for programs, held against its schema.

use jsonschema::{Draft, JSONSchema};
use serde_json::{Value as Json, json};

/// Of a whole schema, or of one of its definitions.
pub(crate) fn validator(schema: &str, part: Option<&str>) -> JSONSchema {
    let schema: Json = serde_json::from_str(schema).unwrap();
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
