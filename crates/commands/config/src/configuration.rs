//! The settings in force, of the layers in their order: environment, the user's file, the file of the system.

use crate::document::{self, Literal};
use crate::layer::{self, Variable};
use crate::setting::Setting;
use crate::trusted_file::{self, Candidate, Contents};
use crate::words;
use sockeye_console::stdout;
use sockeye_model::nearest_name;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What the caller knows of settings and commands.
pub struct Schema<'a> {
    /// All settings but aliases.
    pub settings: Vec<Setting>,
    /// Names of commands, which no alias replaces.
    pub commands: Vec<String>,
    /// Checks the value of a key; the error says what is expected.
    pub check: &'a dyn Fn(&str, &str) -> Result<(), String>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A variable of the environment
    Variable(String),
    /// A line of a file
    File {
        /// Its path
        path: PathBuf,
        /// From 1 on
        line: usize,
    },
}

/// `environment, SOCKEYE_COLOR`; `/etc/sockeye/config.toml:3`
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "environment, {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

/// A value that is not the default one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The value.
    pub text: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Another name for the words of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The words, without quotes.
    pub words: Vec<String>,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether a command has this name; then the alias is not used.
    pub is_hidden: bool,
}

/// A file, and what became of it.
#[derive(Debug)]
pub(crate) struct FileReport {
    pub(crate) path: PathBuf,
    pub(crate) is_read: bool,
    /// `read`, or why not.
    pub(crate) state: String,
}

/// The settings in force.
#[derive(Debug, Default)]
pub struct Configuration {
    pub(crate) settings: Vec<Setting>,
    pub(crate) files: Vec<FileReport>,
    values: BTreeMap<String, Value>,
    pub(crate) aliases: BTreeMap<String, Alias>,
    errors: Vec<String>,
    /// Whether an error is in a file.
    has_file_error: bool,
    notes: Vec<String>,
}

impl Configuration {
    /// Reads files, unless they are left out, and the environment.
    #[must_use]
    pub fn load(schema: Schema<'_>, leave_out_files: bool) -> Self {
        let mut loaded = Self::default();
        let candidates = if leave_out_files {
            Vec::new()
        } else {
            trusted_file::candidates()
        };
        for candidate in candidates {
            loaded.add_file(&candidate, &schema);
        }
        loaded.add_variables(&schema);
        for name in &schema.commands {
            if let Some(alias) = loaded.aliases.get_mut(name) {
                alias.is_hidden = true;
            }
        }
        loaded.settings = schema.settings;
        loaded
    }

    /// Returns whether nothing is set: there is no file, and no variable that counts. [`Self::load`] would find only default values
    /// then, and its schema takes longer to make than many commands take.
    #[must_use]
    pub fn is_absent(leave_out_files: bool) -> bool {
        let has_variable = layer::has_any(std::env::vars_os()) || stdout::environment_color().is_some();
        let has_file = || !trusted_file::candidates().iter().all(trusted_file::is_absent);
        !has_variable && (leave_out_files || !has_file())
    }

    /// Returns the value of a key; `None` if it is the default one.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Returns all values that are not the default ones, with their keys.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns an alias by its name; `None` if there is none, or a command has the name.
    #[must_use]
    pub fn alias(&self, name: &str) -> Option<&Alias> {
        self.aliases.get(name).filter(|alias| !alias.is_hidden)
    }

    /// Returns what is wrong with files and variables, with a remedy; `None` if nothing.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        if self.errors.is_empty() {
            return None;
        }
        let mut text: String = self
            .errors
            .iter()
            .take(ERRORS_MAX)
            .map(|error| format!("sockeye: {error}\n"))
            .collect();
        let more = self.errors.len().saturating_sub(ERRORS_MAX);
        if more > 0 {
            let noun = if more == 1 { "error" } else { "errors" };
            text.push_str(&format!("and {more} more {noun}\n"));
        }
        if self.has_file_error {
            text.push_str("`sockeye --no-config ...` or SOCKEYE_CONFIG= runs without the files; ");
        }
        text.push_str("`sockeye config` shows all settings.\n");
        Some(text)
    }

    /// Returns what the user should know although it is no error, one sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn add_file(&mut self, candidate: &Candidate, schema: &Schema<'_>) {
        let path = &candidate.path;
        let (is_read, state) = match trusted_file::read(candidate) {
            Contents::Text(text) => {
                self.add_document(path, &text, schema);
                (true, "read".to_owned())
            }
            Contents::Absent(reason) => (false, reason),
            Contents::Refused(reason) => {
                self.errors.push(format!("{}: {reason}", path.display()));
                self.has_file_error = true;
                (false, reason)
            }
        };
        self.files.push(FileReport {
            path: path.clone(),
            is_read,
            state,
        });
    }

    fn add_document(&mut self, path: &Path, text: &str, schema: &Schema<'_>) {
        let (entries, errors) = document::read(text);
        let mut wrong: Vec<(usize, String)> = errors;
        for entry in entries {
            let origin = Origin::File {
                path: path.to_owned(),
                line: entry.line,
            };
            if let Err(error) = self.add(schema, &entry.key, entry.value, origin) {
                wrong.push((entry.line, error));
            }
        }
        wrong.sort();
        self.has_file_error |= !wrong.is_empty();
        let located = wrong
            .into_iter()
            .map(|(line, error)| format!("{}:{line}: {error}", path.display()));
        self.errors.extend(located);
    }

    fn add_variables(&mut self, schema: &Schema<'_>) {
        // What all programs share counts more than a file, and less than our own variable.
        if let Some((color, name)) = stdout::environment_color() {
            let value = Value {
                text: color.name().to_owned(),
                origin: Origin::Variable(name.to_owned()),
            };
            self.values.insert("color".to_owned(), value);
        }
        let aliases: Vec<String> = self.aliases.keys().cloned().collect();
        let aliases: Vec<&str> = aliases.iter().map(String::as_str).collect();
        for variable in layer::variables(std::env::vars_os(), &schema.settings, &aliases) {
            match variable {
                Variable::Value { name, key, text } => {
                    // Later layers do not replace: this one counts more.
                    self.values.remove(&key);
                    if let Some(alias) = key.strip_prefix("alias.") {
                        self.aliases.remove(alias);
                    }
                    let origin = Origin::Variable(name.clone());
                    if let Err(error) = self.add(schema, &key, Literal::Text(text), origin) {
                        self.errors.push(format!("{name}: {error}"));
                    }
                }
                Variable::Unknown { name, nearest } => {
                    let guess = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
                    self.notes
                        .push(format!("{name} is no setting, and is ignored{guess}"));
                }
                Variable::Unreadable { name } => self.errors.push(format!("{name}: its value is not UTF-8")),
            }
        }
    }

    /// Adds a value, unless a layer that counts more has one.
    fn add(&mut self, schema: &Schema<'_>, key: &str, value: Literal, origin: Origin) -> Result<(), String> {
        if let Some(name) = key.strip_prefix("alias.") {
            let words = match value {
                Literal::Text(text) => words::split(&text).map_err(|error| format!("{key}: {error}"))?,
                Literal::List(words) => words,
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
                return Err(format!(
                    "{key}: the name of an alias has letters, digits, '-' and '_' only"
                ));
            }
            if words.is_empty() {
                return Err(format!("{key}: an alias needs a command"));
            }
            let alias = Alias {
                words,
                origin,
                is_hidden: false,
            };
            self.aliases.entry(name.to_owned()).or_insert(alias);
            return Ok(());
        }
        if !schema.settings.iter().any(|setting| setting.key == key) {
            let known = schema.settings.iter().map(|setting| setting.key.as_str());
            let guess =
                nearest_name(key, known).map_or(String::new(), |key| format!("; did you mean '{key}'?"));
            return Err(format!("unknown key '{key}'{guess}"));
        }
        let text = match value {
            Literal::Text(text) => text,
            Literal::List(values) => values.join(","),
        };
        (schema.check)(key, &text).map_err(|error| format!("{key}: {error}"))?;
        self.values
            .entry(key.to_owned())
            .or_insert(Value { text, origin });
        Ok(())
    }
}

/// Errors that are shown; a file of another kind has thousands.
const ERRORS_MAX: usize = 10;
