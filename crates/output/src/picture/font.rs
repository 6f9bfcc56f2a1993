//! The font of pictures: measures of text for every format, and its pixels for PNG.
//!
//! The three files in `fonts/` are parts of DejaVu (`fonts/make.sh`), because a server may have no fonts. `ttf-parser` reads them and
//! `ab_glyph_rasterizer` computes how much of each pixel a letter covers. `ab_glyph` and `fontdue` do both, but add more packages
//! for collections, OpenType layout and caches, which are not needed here.

use ab_glyph_rasterizer::{Point, Rasterizer, point};
use std::sync::LazyLock;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// A typeface of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typeface {
    /// Proportional letters.
    Regular,
    /// Bold proportional letters.
    Bold,
    /// Letters of equal width, for names of functions.
    Mono,
}

impl Typeface {
    /// Returns the bold or the regular typeface.
    pub const fn with_weight(bold: bool) -> Self {
        if bold { Self::Bold } else { Self::Regular }
    }
}

/// Returns the width of a text, in pixels; an em is `size` pixels.
pub fn width(text: &str, size: f32, typeface: Typeface) -> f32 {
    text.chars()
        .map(|character| Glyph::of(character, typeface).width)
        .sum::<f32>()
        * size
}

/// Draws a text from the left end of its base line: calls `blend` with column, row and coverage (0 to 1) of each touched pixel.
/// Positions and `size`, the pixels of an em, are those of the bitmap.
pub fn draw(
    text: &str,
    [left, base]: [f32; 2],
    size: f32,
    typeface: Typeface,
    blend: &mut dyn FnMut(usize, usize, f32),
) {
    let mut left = left;
    for character in text.chars() {
        let glyph = Glyph::of(character, typeface);
        glyph.draw([left, base], size, blend);
        left += glyph.width * size;
    }
}

/// A letter of one of the fonts.
struct Glyph {
    face: &'static Face<'static>,
    id: GlyphId,
    /// Advance, in ems.
    width: f32,
}

impl Glyph {
    /// Returns the letter for a character: in its typeface, else in the regular one, else a box.
    fn of(character: char, typeface: Typeface) -> Self {
        let own = match typeface {
            Typeface::Regular => &FONTS.regular,
            Typeface::Bold => &FONTS.bold,
            Typeface::Mono => &FONTS.mono,
        };
        let found = [own, &FONTS.regular]
            .into_iter()
            .find_map(|face| Some((face, face.glyph_index(character)?)));
        let (face, id) = found.unwrap_or((own, GlyphId(0)));
        let units = f32::from(face.units_per_em());
        let advance = f32::from(face.glyph_hor_advance(id).unwrap_or(0)) / units;
        let width = match (typeface, found) {
            // Names of functions keep their columns.
            (Typeface::Mono, _) => MONO_WIDTH,
            // A viewer of SVG has these letters, and many of them are as wide as high.
            (_, None) if character >= '\u{1100}' => advance.max(1.0),
            _ => advance,
        };
        Self { face, id, width }
    }

    fn draw(&self, [left, base]: [f32; 2], size: f32, blend: &mut dyn FnMut(usize, usize, f32)) {
        let unit = size / f32::from(self.face.units_per_em());
        let Some(bounds) = self.face.glyph_bounding_box(self.id) else {
            return; // a space
        };
        let x_of = |x: i16| left + f32::from(x) * unit;
        let y_of = |y: i16| base - f32::from(y) * unit;
        let (from_x, from_y) = (x_of(bounds.x_min).floor(), y_of(bounds.y_max).floor());
        let (columns, rows) = (
            x_of(bounds.x_max).ceil() - from_x + 1.0,
            y_of(bounds.y_min).ceil() - from_y + 1.0,
        );
        if !(columns <= GLYPH_MAX && rows <= GLYPH_MAX) {
            return;
        }
        let mut outline = Outline {
            rasterizer: Rasterizer::new(columns as usize, rows as usize),
            left: left - from_x,
            base: base - from_y,
            unit,
            first: point(0.0, 0.0),
            last: point(0.0, 0.0),
        };
        if self.face.outline_glyph(self.id, &mut outline).is_none() {
            return;
        }
        outline.rasterizer.for_each_pixel_2d(|x, y, share| {
            let (column, row) = (from_x + x as f32, from_y + y as f32);
            if share > 0.0 && column >= 0.0 && row >= 0.0 {
                blend(column as usize, row as usize, share.min(1.0));
            }
        });
    }
}

/// The outline of a letter, on its way into a rasterizer.
struct Outline {
    rasterizer: Rasterizer,
    /// Origin of the letter in the rasterizer, in pixels.
    left: f32,
    base: f32,
    /// Pixels of a unit of the font.
    unit: f32,
    first: Point,
    last: Point,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> Point {
        point(self.left + x * self.unit, self.base - y * self.unit)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.first = self.at(x, y);
        self.last = self.first;
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.at(x, y);
        self.rasterizer.draw_line(self.last, to);
        self.last = to;
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let to = self.at(x, y);
        self.rasterizer.draw_quad(self.last, self.at(x1, y1), to);
        self.last = to;
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let to = self.at(x, y);
        self.rasterizer
            .draw_cubic(self.last, self.at(x1, y1), self.at(x2, y2), to);
        self.last = to;
    }

    fn close(&mut self) {
        self.rasterizer.draw_line(self.last, self.first);
        self.last = self.first;
    }
}

struct Fonts {
    regular: Face<'static>,
    bold: Face<'static>,
    mono: Face<'static>,
}

static FONTS: LazyLock<Fonts> = LazyLock::new(|| {
    // The files are constants, and a test reads them.
    let face = |bytes| Face::parse(bytes, 0).expect("a font of this crate");
    Fonts {
        regular: face(include_bytes!("../../fonts/DejaVuSans.ttf")),
        bold: face(include_bytes!("../../fonts/DejaVuSans-Bold.ttf")),
        mono: face(include_bytes!("../../fonts/DejaVuSansMono.ttf")),
    }
});

/// Advance of every letter of the typeface of equal widths, in ems.
pub const MONO_WIDTH: f32 = 1233.0 / 2048.0;
/// Largest letter, in pixels.
const GLYPH_MAX: f32 = 4_096.0;

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Typeface; 3] = [Typeface::Regular, Typeface::Bold, Typeface::Mono];

    /// Returns the columns, rows and sum of coverage of a text whose base line is at 20, 20.
    fn drawn(text: &str, typeface: Typeface) -> (Vec<usize>, Vec<usize>, f32) {
        let (mut columns, mut rows, mut sum) = (Vec::new(), Vec::new(), 0.0);
        draw(text, [20.0, 20.0], 16.0, typeface, &mut |column, row, share| {
            columns.push(column);
            rows.push(row);
            sum += share;
        });
        columns.sort_unstable();
        rows.sort_unstable();
        (columns, rows, sum)
    }

    #[test]
    fn every_character_is_drawn_within_its_line() {
        for typeface in ALL {
            for character in ('!'..='~').chain("→×·µ…žÅß漢\u{1f600}".chars()) {
                let (columns, rows, sum) = drawn(&character.to_string(), typeface);
                assert!(sum > 1.0, "{character} {typeface:?} {sum}");
                // Letters may extend a little beyond their advance.
                let right = 20.0 + width(&character.to_string(), 16.0, typeface) + 3.0;
                assert!(
                    (columns[columns.len() - 1] as f32) < right,
                    "{character} {typeface:?}"
                );
                assert!(
                    columns[0] >= 17 && rows[0] >= 2 && rows[rows.len() - 1] <= 25,
                    "{character}"
                );
            }
            assert_eq!(drawn(" \u{a0}", typeface).2, 0.0);
        }
    }

    #[test]
    fn missing_characters_are_boxes() {
        let missing = drawn("漢", Typeface::Regular);
        assert!(missing.2 > 5.0);
        assert_eq!(missing.2, drawn("\u{e000}", Typeface::Regular).2);
        assert!(width("漢", 10.0, Typeface::Regular) >= 10.0);
    }

    #[test]
    fn widths_are_those_of_the_font() {
        // Advances of DejaVu Sans: i 569, m 1995 of 2048 units
        assert!((width("i", 2048.0, Typeface::Regular) - 569.0).abs() < 0.5);
        assert!((width("m", 2048.0, Typeface::Regular) - 1995.0).abs() < 0.5);
        assert!(width("mm", 12.0, Typeface::Bold) > width("mm", 12.0, Typeface::Regular));
        for text in ["i", "m", "→", "漢"] {
            assert!((width(text, 10.0, Typeface::Mono) - 10.0 * MONO_WIDTH).abs() < 0.01);
        }
    }

    #[test]
    fn odd_sizes_draw_nothing_and_do_not_panic() {
        for size in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e9] {
            draw("Ag", [0.0, 0.0], size, Typeface::Regular, &mut |_, _, _| {});
        }
        draw("Ag", [-1e9, 1e9], 12.0, Typeface::Bold, &mut |_, _, _| {});
    }
}
