//! JSON Schemas of `docs/schema`, together with the shared definitions that they refer to.
//!
//! All tests that need a schema include this file (by `#[path]`), also those of other crates.

use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the schema with this text. Its references into `defs.schema.json` become references to `$defs` of its own, and
/// the definitions that they need are added there, so that it is complete in itself.
pub(crate) fn load(text: &str) -> Value {
    let mut schema: Value = serde_json::from_str(text).unwrap();
    let shared: Value = serde_json::from_str(DEFS).unwrap();
    let (mut needed, mut added) = (Vec::new(), BTreeSet::new());
    make_local(&mut schema, "defs.schema.json#/$defs/", &mut needed);
    while let Some(name) = needed.pop() {
        if !added.insert(name.clone()) {
            continue;
        }
        let mut definition = shared["$defs"][&name].clone();
        assert!(!definition.is_null(), "defs.schema.json has no {name}");
        make_local(&mut definition, LOCAL, &mut needed);
        let definitions = &mut schema["$defs"];
        if definitions.is_null() {
            *definitions = Value::Object(serde_json::Map::new());
        }
        let previous = definitions
            .as_object_mut()
            .unwrap()
            .insert(name.clone(), definition);
        assert!(
            previous.is_none(),
            "{name} is both a definition of the schema and shared"
        );
    }
    schema
}

/// Replaces `prefix` of references by that of local ones, and adds the names of the definitions to `names`.
fn make_local(value: &mut Value, prefix: &str, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix(prefix).map(str::to_owned) {
                            *target = format!("{LOCAL}{name}");
                            names.push(name);
                        }
                    }
                    value => make_local(value, prefix, names),
                }
            }
        }
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| make_local(value, prefix, names)),
        _ => {}
    }
}

const LOCAL: &str = "#/$defs/";
const DEFS: &str = include_str!("../../../../docs/schema/defs.schema.json");
