//! Simple values, in every format.

use super::sort_value::SortValue;
use crate::csv::Line;
use crate::json::{Key, Object};
use crate::number::{push_byte_rate, push_decimal, push_short};
use crate::table::Tint;
use crate::text::{push_clean, push_json, push_name};
use crate::unit::Unit;

/// A simple value of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Unknown, or not applicable.
    Absent,
    /// A whole number, in the unit of its column.
    Number(u64),
    /// A number with a fraction, in the unit of its column.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A boolean that should be on: a table highlights `off`.
    Switch(bool),
    /// A constant.
    Word(&'static str),
    /// Text, possibly from outside.
    Text(&'a [u8]),
    /// The same, and a table leaves out the middle of a long one.
    Name(&'a [u8]),
    /// A number with a name, if one is known: two fields. A table leaves out the middle of a long name.
    Named(u64, Option<&'a str>),
}

impl<'a> Value<'a> {
    /// Returns the number, or `Absent`.
    pub fn number(number: Option<impl Into<u64>>) -> Self {
        number.map_or(Self::Absent, |number| Self::Number(number.into()))
    }

    /// Returns the number, or `Absent`.
    pub fn float(number: Option<f64>) -> Self {
        number.map_or(Self::Absent, Self::Float)
    }

    /// Returns the text, or `Absent`.
    pub fn text(text: Option<&'a [u8]>) -> Self {
        text.map_or(Self::Absent, Self::Text)
    }

    /// Returns yes or no, or `Absent`.
    pub fn bool(value: Option<bool>) -> Self {
        value.map_or(Self::Absent, Self::Bool)
    }

    /// Appends the cell of a table; nothing if the value is absent.
    #[inline]
    pub(super) fn push_cell(self, out: &mut Vec<u8>, unit: Unit) -> Tint {
        match self {
            Self::Absent => {}
            Self::Number(number) => unit.push(out, number),
            Self::Float(number) if !number.is_finite() => {}
            Self::Float(number) if unit == Unit::ByteRate => push_byte_rate(out, number),
            Self::Float(number) => push_float(out, number),
            Self::Bool(value) => out.extend_from_slice(if value { b"yes" } else { b"no" }),
            Self::Switch(true) => out.extend_from_slice(b"on"),
            Self::Switch(false) => {
                out.extend_from_slice(b"off");
                return Tint::Yellow;
            }
            Self::Word(word) => out.extend_from_slice(word.as_bytes()),
            Self::Text(text) => push_clean(out, text),
            Self::Name(name) => push_name(out, name),
            Self::Named(_, Some(name)) => push_name(out, name.as_bytes()),
            Self::Named(number, None) => push_decimal(out, number),
        }
        Tint::None
    }

    pub(super) fn push_csv(self, line: &mut Line<'_>, fields: usize) {
        match self {
            Self::Absent => line.empty(fields),
            Self::Number(number) => line.number(Some(number)),
            Self::Float(number) => line.float(Some(number)),
            Self::Bool(value) | Self::Switch(value) => line.boolean(Some(value)),
            Self::Word(word) => line.word(word),
            Self::Text(text) | Self::Name(text) => line.bytes(Some(text)),
            Self::Named(number, name) => {
                line.number(Some(number));
                line.text(name);
            }
        }
    }

    pub(super) fn push_json(self, object: &mut Object<'_>, keys: &[&str]) {
        let Some(key) = keys.first() else { return };
        match self {
            Self::Absent => {}
            Self::Number(number) => object.number(key, Some(number)),
            Self::Float(number) => object.float(key, number),
            Self::Bool(value) | Self::Switch(value) => object.boolean(key, Some(value)),
            Self::Word(word) => object.word(key, word),
            Self::Text(text) | Self::Name(text) => object.bytes(key, Some(text)),
            Self::Named(number, name) => {
                object.number(key, Some(number));
                if let Some(key) = keys.get(1) {
                    object.text(key, name);
                }
            }
        }
    }

    /// Appends JSON fields as [`Self::push_json`], with the keys prepared.
    #[inline]
    pub(super) fn push_prepared_json(self, object: &mut Object<'_>, prepared: &[Key], keys: &[&str]) {
        match (self, prepared) {
            (Self::Absent, _) => {}
            (Self::Number(number), [key, ..]) => push_decimal(object.prepared(key), number),
            (Self::Word(word), [key, ..]) => {
                let out = object.prepared(key);
                out.push(b'"');
                push_short(out, word.as_bytes());
                out.push(b'"');
            }
            (Self::Named(number, name), [key, name_key, ..]) => {
                push_decimal(object.prepared(key), number);
                if let Some(name) = name {
                    push_json(object.prepared(name_key), name.as_bytes());
                }
            }
            _ => self.push_json(object, keys),
        }
    }

    /// Returns what rows are sorted by: the value itself, not its text.
    pub(super) fn sort_value(self) -> Option<SortValue> {
        Some(match self {
            Self::Absent => return None,
            Self::Number(number) | Self::Named(number, None) => SortValue::Number(number),
            Self::Float(number) => SortValue::float(number),
            Self::Bool(value) | Self::Switch(value) => SortValue::Number(value.into()),
            Self::Word(word) => SortValue::Text(word.as_bytes().into()),
            Self::Named(_, Some(name)) => SortValue::Text(name.as_bytes().into()),
            Self::Text(text) | Self::Name(text) => SortValue::Text(text.into()),
        })
    }
}

/// Appends a rate. Below ten it has a tenth, so that one connection in five seconds is not shown as none.
fn push_float(out: &mut Vec<u8>, number: f64) {
    if number > 0.0 && number < 9.95 {
        out.extend_from_slice(format!("{number:.1}").as_bytes());
    } else {
        crate::number::push_human(out, number.max(0.0).round() as u128);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_is_cut_in_tables_only() {
        let path = format!("/{}/nginx.service", "a".repeat(100));
        let value = Value::Named(4711, Some(&path));
        let mut cell = Vec::new();
        value.push_cell(&mut cell, Unit::None);
        assert!(cell.len() < 50 && cell.ends_with(b"nginx.service"), "{cell:?}");
        let mut csv = Vec::new();
        value.push_csv(&mut Line::begin(&mut csv), 2);
        assert_eq!(String::from_utf8_lossy(&csv), format!("4711,{path}"));
    }
}
