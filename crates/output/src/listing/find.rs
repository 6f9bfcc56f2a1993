//! Columns by their names.

use super::column::{Column, Record};
use crate::text;
use sockeye_model::{is_name_of, is_same_name, nearest_name, strip_unit};
use std::fmt;

/// Returns the column with this name: its own, an alias, its heading, or that of one of its CSV fields. Upper case and `-`
/// for `_` are accepted; a unit may be left out (`rtt` for `rtt_us`).
///
/// # Errors
/// If there is none; the error has the nearest and all known names.
pub fn find_column<R: Record>(name: &str) -> Result<&'static Column<R>, UnknownColumn> {
    let typed = name.trim().replace(' ', "_");
    let columns = R::columns();
    let rules: [Rule<'_, R>; 5] = [
        &|column| {
            let mut names = std::iter::once(&column.name).chain(column.aliases);
            names.any(|known| is_same_name(&typed, known))
        },
        &|column| {
            column
                .csv_fields()
                .iter()
                .any(|field| is_same_name(&typed, field))
        },
        &|column| is_name_of(&typed, column.name),
        &|column| column.csv_fields().iter().any(|field| is_name_of(&typed, field)),
        &|column| !column.heading.is_empty() && is_same_name(&typed, &column.heading.replace(' ', "_")),
    ];
    rules
        .iter()
        .find_map(|rule| columns.iter().find(|column| rule(column)))
        .ok_or_else(|| UnknownColumn::new(name.trim(), columns.iter().map(|column| column.name)))
}

/// Whether a typed name means a column.
type Rule<'a, R> = &'a dyn Fn(&Column<R>) -> bool;

/// Parses names with commas between them. `all` is every column, and the name of a JSON object, such as `tcp_info`,
/// is every column with a field in it. A column that is named twice is there once, at its first place.
///
/// # Errors
/// As [`find_column`], for the first unknown name, and for an empty list.
pub fn parse_columns<R: Record>(list: &str) -> Result<Vec<&'static Column<R>>, UnknownColumn> {
    let mut columns = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let in_object = |column: &&Column<R>| {
            let path = column.json_paths().first();
            path.is_some_and(|path| path.split_once('.').is_some_and(|(object, _)| object == name))
        };
        if name == "all" {
            columns.extend(all_columns());
            continue;
        }
        match find_column(name) {
            Ok(column) => columns.push(column),
            Err(error) => {
                let before = columns.len();
                columns.extend(R::columns().iter().filter(in_object));
                if columns.len() == before {
                    return Err(error);
                }
            }
        }
    }
    if columns.is_empty() {
        return find_column("").map(|column| vec![column]);
    }
    let mut once: Vec<&'static Column<R>> = Vec::with_capacity(columns.len());
    for column in columns {
        if !once.contains(&column) {
            once.push(column);
        }
    }
    Ok(once)
}

/// Checks a list as [`parse_columns`] takes it.
///
/// # Errors
/// The first unknown name, with the nearest known one.
pub fn check_columns<R: Record>(list: &str) -> Result<(), String> {
    match parse_columns::<R>(list) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.message()),
    }
}

/// Returns the columns of CSV without `--columns`.
pub fn all_columns<R: Record>() -> impl Iterator<Item = &'static Column<R>> {
    R::columns().iter().filter(|column| !column.is_part())
}

/// Returns the columns with these names. For names in the source, which tests cover.
///
/// # Panics
/// If there is no such column.
pub fn named_columns<R: Record>(names: &[&str]) -> Vec<&'static Column<R>> {
    names
        .iter()
        .map(|name| find_column(name).expect("columns that the source names exist"))
        .collect()
}

/// Returns a line for each column: its name, what it shows, and its other names.
pub fn columns_help<R: Record>() -> Vec<String> {
    let columns = R::columns();
    let width = columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
    columns
        .iter()
        .map(|column| {
            let also = if column.aliases.is_empty() {
                String::new()
            } else {
                format!(" (also: {})", column.aliases.join(", "))
            };
            format!("{:<width$}  {}{also}", column.name, column.about)
        })
        .collect()
}

/// The names of a column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnNames {
    /// Name for `--columns` and `--sort`.
    pub name: &'static str,
    /// Other names that these accept.
    pub aliases: &'static [&'static str],
    /// Heading in a table.
    pub heading: &'static str,
    /// Its CSV fields.
    pub fields: &'static [&'static str],
}

/// Returns the names of all columns.
pub fn column_names<R: Record>() -> Vec<ColumnNames> {
    R::columns()
        .iter()
        .map(|column| ColumnNames {
            name: column.name,
            aliases: column.aliases,
            heading: column.heading,
            fields: column.csv_fields(),
        })
        .collect()
}

/// A column that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownColumn {
    /// The name that was typed.
    pub name: String,
    /// The most similar known name; `None` if none is similar.
    pub nearest: Option<String>,
    /// Every known name.
    pub known: Vec<String>,
}

impl UnknownColumn {
    /// Creates the error for `name`, with the nearest of the `known` names.
    fn new(name: &str, known: impl Iterator<Item = &'static str>) -> Self {
        let known: Vec<String> = known.map(str::to_owned).collect();
        let typed = name.replace('-', "_");
        let without_units = known.iter().map(|known| strip_unit(known));
        let nearest = nearest_name(&typed, known.iter().map(String::as_str).chain(without_units));
        let nearest = nearest.and_then(|nearest| known.iter().find(|known| is_name_of(nearest, known)));
        let nearest = nearest.cloned();
        Self {
            name: name.to_owned(),
            nearest,
            known,
        }
    }

    /// Returns what is wrong and what was probably meant, without the known names.
    #[must_use]
    pub fn message(&self) -> String {
        let name = text::harmless(self.name.as_bytes());
        if ENVELOPE.contains(&&*self.name) {
            return format!("'{name}' is no column: CSV and JSON have it always");
        }
        let nearest = self.nearest.as_deref();
        let guess = nearest.map_or(String::new(), |nearest| format!("; did you mean '{nearest}'?"));
        format!("unknown column '{name}'{guess}")
    }
}

impl fmt::Display for UnknownColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (known: {})", self.message(), self.known.join(", "))
    }
}

impl std::error::Error for UnknownColumn {}

/// Fields of every row of CSV that are no columns: the envelope's, and the number of the sample.
const ENVELOPE: &[&str] = &["time", "host", "sample"];
