//! The settings as text and as JSON.

use crate::configuration::{Configuration, Origin, Value};
use crate::layer::variable_of;
use crate::setting::Setting;
use crate::words::join;
use sockeye_output::text::harmless;
use sockeye_output::{Envelope, JsonObject};
use std::fmt::Write as _;

/// Returns three columns, then the files.
pub(crate) fn table(configuration: &Configuration, only_changed: bool) -> String {
    let mut rows = vec![["Setting".to_owned(), "Value".to_owned(), "From".to_owned()]];
    for (setting, value) in settings(configuration, only_changed) {
        let text = value.map(|value| &value.text).or(setting.default.as_ref());
        let from = value.map_or_else(|| "default".to_owned(), |value| shown(&value.origin));
        let text = text.map_or_else(|| "-".to_owned(), |text| harmless(text.as_bytes()));
        rows.push([setting.key.clone(), text, from]);
    }
    for (name, alias) in &configuration.aliases {
        let mut from = shown(&alias.origin);
        if alias.is_hidden {
            from.push_str("; not used: a command has this name");
        }
        let text = harmless(join(&alias.words).as_bytes());
        rows.push([format!("alias.{name}"), text, from]);
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (first, second) = (width(0), width(1).min(VALUE_WIDTH_MAX));
    let mut text = String::new();
    for [key, value, from] in &rows {
        let _ = writeln!(text, "{key:first$}  {value:second$}  {from}");
    }
    if configuration.files.is_empty() {
        text.push_str("\nFiles are left out.\n");
    } else {
        text.push_str("\nFiles, of which the first with a setting counts:\n");
    }
    for file in &configuration.files {
        let path = harmless(file.path.as_os_str().as_encoded_bytes());
        let _ = writeln!(text, "  {path}: {}", harmless(file.state.as_bytes()));
    }
    text
}

/// Returns one document.
pub(crate) fn json(configuration: &Configuration, only_changed: bool, envelope: &Envelope) -> Vec<u8> {
    let mut out = Vec::new();
    let mut document = JsonObject::begin(&mut out);
    envelope.push(&mut document, "config");
    let mut list = List::begin(document.key("config"));
    for (setting, value) in settings(configuration, only_changed) {
        let mut object = list.object();
        object.word("key", &setting.key);
        let text = value.map(|value| &value.text).or(setting.default.as_ref());
        object.text("value", text.map(String::as_str));
        object.text("default", setting.default.as_deref());
        push_origin(&mut object, value.map(|value| &value.origin));
        object.word("variable", &variable_of(&setting.key));
        object.text("about", Some(&setting.about));
        object.end();
    }
    list.end();
    let mut list = List::begin(document.key("aliases"));
    for (name, alias) in &configuration.aliases {
        let mut object = list.object();
        object.word("name", name);
        object.text("value", Some(&join(&alias.words)));
        object.boolean("is_used", Some(!alias.is_hidden));
        push_origin(&mut object, Some(&alias.origin));
        object.end();
    }
    list.end();
    let mut list = List::begin(document.key("files"));
    for file in &configuration.files {
        let mut object = list.object();
        object.text("path", Some(&file.path.to_string_lossy()));
        object.boolean("is_read", Some(file.is_read));
        object.text("state", Some(&file.state));
        object.end();
    }
    list.end();
    document.end();
    out.push(b'\n');
    out
}

fn settings(
    configuration: &Configuration,
    only_changed: bool,
) -> impl Iterator<Item = (&Setting, Option<&Value>)> {
    let all = configuration.settings.iter();
    all.map(|setting| (setting, configuration.value(&setting.key)))
        .filter(move |(_, value)| value.is_some() || !only_changed)
}

fn shown(origin: &Origin) -> String {
    harmless(origin.to_string().as_bytes())
}

fn push_origin(object: &mut JsonObject<'_>, origin: Option<&Origin>) {
    match origin {
        None => object.word("from", "default"),
        Some(Origin::Variable(name)) => {
            object.word("from", "environment");
            object.text("from_variable", Some(name));
        }
        Some(Origin::File { path, line }) => {
            object.word("from", "file");
            object.text("from_file", Some(&path.to_string_lossy()));
            object.number("from_line", Some(*line as u64));
        }
    }
}

/// An array of objects that is being written.
struct List<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> List<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, is_empty: true }
    }

    fn object(&mut self) -> JsonObject<'_> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        JsonObject::begin(self.out)
    }

    fn end(self) {
        self.out.push(b']');
    }
}

/// Longer values are not padded.
const VALUE_WIDTH_MAX: usize = 40;
