//! A stroke font, smooth at any size, for pictures of pixels, which have no other font.

/// Returns the strokes of a text and its width, in pixels from the left end of its base line; an em is `size` pixels.
pub fn strokes(text: &str, size: f32) -> (Vec<Vec<[f32; 2]>>, f32) {
    let unit = size / UNITS;
    let (mut strokes, mut left) = (Vec::new(), 0.0);
    for character in text.chars() {
        let (shape, width) = glyph(character);
        for stroke in shape.split('|').filter(|stroke| !stroke.is_empty()) {
            let points = points(stroke).into_iter();
            strokes.push(
                points
                    .map(|[x, y]| [left + x * unit, (y - BASE) * unit])
                    .collect(),
            );
        }
        left += (width + GAP) * unit;
    }
    (strokes, (left - GAP * unit).max(0.0))
}

/// Returns the width of strokes, in pixels.
pub fn pen(size: f32, bold: bool) -> f32 {
    size * if bold { 0.135 } else { 0.092 }
}

/// Returns a character's strokes and its width.
fn glyph(character: char) -> (&'static str, f32) {
    let shape = match character {
        ' ' | '\u{a0}' => return ("", 2.0),
        '!'..='~' => ASCII[character as usize - '!' as usize],
        '→' => "06 86|54 86 58",
        '×' => "14 58|54 18",
        '·' => "16 16",
        'µ' => "03 0c|~03 06 09 49 57|53 59",
        '…' => "18 18|19 19|48 48|49 49|78 78|79 79",
        // A character that this font lacks.
        _ => "00 50 59 09 00",
    };
    if character.is_ascii_digit() {
        return (shape, 6.0);
    }
    let columns = shape
        .split([' ', '|'])
        .filter_map(|point| point.trim_start_matches('~').bytes().next());
    // Control points of curves may be a little outside.
    (
        shape,
        f32::from(columns.max().unwrap_or(b'0').saturating_sub(b'0')).min(8.0),
    )
}

/// Returns the points of a stroke; one that begins with `~` is a curve.
fn points(stroke: &str) -> Vec<[f32; 2]> {
    let (is_round, stroke) = match stroke.strip_prefix('~') {
        Some(rest) => (true, rest),
        None => (false, stroke),
    };
    let digit = |byte: u8| match byte {
        b'a'..=b'f' => f32::from(byte - b'a') + 10.0,
        _ => f32::from(byte.saturating_sub(b'0')),
    };
    let mut points: Vec<[f32; 2]> = stroke
        .split(' ')
        .filter_map(|pair| pair.as_bytes().first_chunk::<2>())
        .map(|[x, y]| [digit(*x), digit(*y)])
        .collect();
    if is_round {
        for _ in 0..3 {
            points = cut_corners(&points);
        }
    }
    points
}

/// Returns a curve from a polygon (Chaikin's algorithm); the ends of a closed polygon are rounded too.
fn cut_corners(points: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let between =
        |[ax, ay]: [f32; 2], [bx, by]: [f32; 2], share: f32| [ax + (bx - ax) * share, ay + (by - ay) * share];
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let is_closed = first == last;
    let mut cut = Vec::with_capacity(points.len() * 2);
    if !is_closed {
        cut.push(first);
    }
    for pair in points.windows(2) {
        cut.push(between(pair[0], pair[1], 0.25));
        cut.push(between(pair[0], pair[1], 0.75));
    }
    if is_closed {
        cut.extend(cut.first().copied());
    } else {
        cut.push(last);
    }
    cut
}

/// Height of an em, position of the base line, and space between characters, in units of the font.
const UNITS: f32 = 13.2;
const BASE: f32 = 9.0;
const GAP: f32 = 2.1;

/// Characters `!` to `~` as strokes separated by `|`. Each point is a column, from 0, and a row: 0 is the top of capitals,
/// 3 the top of small letters, 9 the base line, c the lowest.
#[rustfmt::skip]
const ASCII: [&str; 94] = [
    "00 06|09 09", "00 02|20 22", "20 19|50 49|03 63|06 66", "~61 50 00 05 64 69 09 07|30 39",
    "60 09|~00 30 33 03 00|~36 66 69 39 36", "69 13|~13 10 40 43 05 09 49 65", "00 02", "~20 03 06 2a", "~00 23 26 0a",
    "31 37|02 66|62 06", "33 39|06 66", "19 0b", "06 36", "18 18|19 19", "40 0a",
    "~00 60 69 09 00", "12 30 39", "~02 00 60 64 09|09 69", "~01 00 60 64 24|~24 64 69 09 07", "49 40 06 66",
    "60 10 04|~04 63 69 09 07", "~04 64 69 09 04|~50 00 07", "00 60 29", "~00 60 64 04 00|~04 64 69 09 04",
    "~00 60 65 05 00|~62 69 19",
    "13 13|14 14|18 18|19 19", "13 13|14 14|19 0b", "53 06 59", "04 54|07 57", "03 56 09", "~01 00 50 54 24 26|29 29",
    "~45 25 27 47 45|~44 48 68 64 60 00 09 59",
    "09 30 69|16 56", "00 09|~00 60 64 04|00 20|04 20|~04 74 79 09", "~62 50 00 09 59 67", "00 09|~00 30 70 79 39 09",
    "50 00 09 59|04 44", "50 00 09|04 44", "~62 50 00 09 69 65|65 45", "00 09|60 69|04 64", "00 09", "~50 57 59 09 07",
    "00 09|60 05|24 69", "00 09 59", "09 00 35 60 69", "09 00 69 60", "~00 70 79 09 00", "09 00|~00 70 75 05",
    "~00 70 79 09 00|46 7a", "09 00|~00 70 75 05|35 69", "~61 50 00 05 64 69 09 07", "00 60|30 39",
    "~00 05 09 69 65 60", "00 39 60", "00 29 42 69 80", "00 69|60 09", "00 34 60|34 39", "00 60 09 69",
    "20 00 0a 2a", "00 4a", "00 20 2a 0a", "03 20 43", "0a 6a", "00 11",
    "~03 53 59 09 03|53 59", "00 09|~03 53 59 09 03", "~54 43 03 09 49 58", "50 59|~03 53 59 09 03",
    "06 56|~56 53 03 09 49 58", "~40 20 23 29|03 43", "~03 53 59 09 03|~53 59 5c 1c 0b", "00 09|~05 13 53 56 59",
    "03 09|01 01", "~13 1a 1c 0c|11 11", "00 09|43 06|15 49", "00 09", "03 09|~05 13 43 46 49|~45 53 83 86 89",
    "03 09|~05 13 53 56 59", "~03 53 59 09 03", "03 0c|~03 53 59 09 03", "53 5c|~03 53 59 09 03", "03 09|~05 13 33",
    "~44 33 03 06 56 59 09 08", "~11 18 19 39|03 33", "~03 06 09 49 57|53 59", "03 39 63", "03 29 44 69 83",
    "03 59|53 09", "03 39|~63 39 1c 0c", "03 53 09 59",
    "~30 10 14 05|~05 16 1a 3a", "00 0b", "~00 20 24 35|~35 26 2a 0a", "~06 14 37 56",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_has_strokes_and_a_width() {
        for character in ('!'..='~').chain("→×·µ…ž".chars()) {
            let (strokes, width) = strokes(&character.to_string(), 13.2);
            assert!(!strokes.is_empty(), "{character}");
            assert!((0.0..10.0).contains(&width), "{character} {width}");
            let inside = |[x, y]: &[f32; 2]| (-0.1..9.0).contains(x) && (-9.1..3.1).contains(y);
            assert!(strokes.iter().flatten().all(inside), "{character} {strokes:?}");
        }
    }
}
