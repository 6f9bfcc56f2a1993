//! Validation of JSON output against its schema in `docs/schema`.

use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::Value;

/// The schema of `analyze`.
pub(crate) const ANALYZE: &str = include_str!("../../../../../docs/schema/analyze.schema.json");
/// The schema of `graph`.
pub(crate) const GRAPH: &str = include_str!("../../../../../docs/schema/graph.schema.json");

pub(crate) fn compile(schema: &Value) -> JSONSchema {
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema)
        .unwrap()
}

/// Compiles the schema with this text.
pub(crate) fn load(text: &str) -> JSONSchema {
    compile(&schema_file::load(text))
}

/// Panics with the first errors of a document that the schema does not accept.
#[track_caller]
pub(crate) fn assert_valid(schema: &JSONSchema, document: &Value) {
    if let Err(errors) = schema.validate(document) {
        let errors: Vec<_> = errors
            .take(5)
            .map(|error| format!("{error} at {}", error.instance_path))
            .collect();
        panic!("{}", errors.join("\n"));
    }
}
