//! Places of addresses: country and autonomous system.

use crate::csv::Line;
use crate::json::Object;
use crate::listing::SortValue;
use crate::table::Tint;
use sockeye_model::Place;

/// Appends a cell of a table.
pub(crate) fn push_place_cell(out: &mut Vec<u8>, place: Option<Place>) -> Tint {
    if let Some(place) = place {
        out.extend_from_slice(place.to_string().as_bytes());
    }
    Tint::None
}

/// Appends two fields: country, number of the autonomous system.
pub(crate) fn push_place_csv(line: &mut Line<'_>, place: Option<Place>) {
    let country = place.and_then(|place| place.country);
    line.bytes(country.as_ref().map(sockeye_model::ShortText::as_bytes));
    line.number(place.and_then(|place| place.as_number));
}

/// Adds `country` and `as_number`.
pub(crate) fn push_place(fields: &mut Object<'_>, place: Option<Place>) {
    let country = place.and_then(|place| place.country);
    fields.bytes(
        "country",
        country.as_ref().map(sockeye_model::ShortText::as_bytes),
    );
    fields.number("as_number", place.and_then(|place| place.as_number));
}

/// Returns what places are sorted by: the country first.
pub(crate) fn place_sort_value(place: Option<Place>) -> Option<SortValue> {
    Some(SortValue::Text(place?.to_string().into_bytes().into()))
}
