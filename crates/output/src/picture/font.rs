//! The font of pictures: measures of text for every format, and its pixels for PNG.
//!
//! The three files in `fonts/` have the letters of DejaVu as outlines (`fonts/make.sh`), because a server may have no fonts.
//! `ab_glyph_rasterizer` computes how much of each pixel a letter covers. No library reads fonts at run time: `ttf-parser`, on which
//! `ab_glyph` and `fontdue` rest, is no longer maintained (RUSTSEC-2026-0192), and `skrifa` doubles the time of a release build.

use ab_glyph_rasterizer::{Point, Rasterizer, point};
use std::sync::LazyLock;

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
    face: &'static Face,
    letter: Letter,
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
            .find_map(|face| Some((face, face.letter(character)?)));
        let (face, letter) = found.unwrap_or((own, own.missing));
        let advance = f32::from(letter.advance) / face.units_per_em;
        let width = match (typeface, found) {
            // Names of functions keep their columns.
            (Typeface::Mono, _) => MONO_WIDTH,
            // A viewer of SVG has these letters, and many of them are as wide as high.
            (_, None) if character >= '\u{1100}' => advance.max(1.0),
            _ => advance,
        };
        Self { face, letter, width }
    }

    fn draw(&self, [left, base]: [f32; 2], size: f32, blend: &mut dyn FnMut(usize, usize, f32)) {
        let unit = size / self.face.units_per_em;
        let [x_min, y_min, x_max, y_max] = self.letter.bounds;
        let x_of = |x: i16| left + f32::from(x) * unit;
        let y_of = |y: i16| base - f32::from(y) * unit;
        let (from_x, from_y) = (x_of(x_min).floor(), y_of(y_max).floor());
        let (columns, rows) = (
            x_of(x_max).ceil() - from_x + 1.0,
            y_of(y_min).ceil() - from_y + 1.0,
        );
        if !(columns <= GLYPH_MAX && rows <= GLYPH_MAX) {
            return;
        }
        let mut pen = Pen {
            rasterizer: Rasterizer::new(columns as usize, rows as usize),
            left: left - from_x,
            base: base - from_y,
            unit,
            first: point(0.0, 0.0),
            last: point(0.0, 0.0),
        };
        self.face.draw(self.letter, &mut pen);
        pen.rasterizer.for_each_pixel_2d(|x, y, share| {
            let (column, row) = (from_x + x as f32, from_y + y as f32);
            if share > 0.0 && column >= 0.0 && row >= 0.0 {
                blend(column as usize, row as usize, share.min(1.0));
            }
        });
    }
}

/// The outline of a letter, on its way into a rasterizer.
struct Pen {
    rasterizer: Rasterizer,
    /// Origin of the letter in the rasterizer, in pixels.
    left: f32,
    base: f32,
    /// Pixels of a unit of the font.
    unit: f32,
    first: Point,
    last: Point,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> Point {
        point(self.left + x * self.unit, self.base - y * self.unit)
    }
}

impl Pen {
    fn move_to(&mut self, [x, y]: [f32; 2]) {
        self.first = self.at(x, y);
        self.last = self.first;
    }

    fn line_to(&mut self, [x, y]: [f32; 2]) {
        let to = self.at(x, y);
        self.rasterizer.draw_line(self.last, to);
        self.last = to;
    }

    fn curve_to(&mut self, [x1, y1]: [f32; 2], [x, y]: [f32; 2]) {
        let to = self.at(x, y);
        self.rasterizer.draw_quad(self.last, self.at(x1, y1), to);
        self.last = to;
    }

    fn close(&mut self) {
        self.rasterizer.draw_line(self.last, self.first);
        self.last = self.first;
    }
}

/// A letter, in units of its font.
#[derive(Debug, Clone, Copy)]
struct Letter {
    character: u32,
    advance: u16,
    /// Least x and y, largest x and y.
    bounds: [i16; 4],
    /// Where its outline begins.
    offset: usize,
}

/// A font of this crate. `fonts/outlines.py` has the format.
struct Face {
    units_per_em: f32,
    /// The box for characters that are missing.
    missing: Letter,
    /// In ascending order of characters.
    letters: Vec<Letter>,
    outlines: &'static [u8],
}

impl Face {
    fn parse(bytes: &'static [u8]) -> Self {
        let (header, rest) = bytes.split_at(4);
        let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (table, outlines) = rest.split_at(usize::from(u16_at(header, 2)) * LETTER_LEN);
        let letters: Vec<Letter> = table
            .chunks_exact(LETTER_LEN)
            .map(|entry| Letter {
                character: u32::from(u16_at(entry, 0)) | u32::from(u16_at(entry, 2)) << 16,
                advance: u16_at(entry, 4),
                bounds: [6, 8, 10, 12].map(|at| u16_at(entry, at).cast_signed()),
                offset: usize::from(u16_at(entry, 14)) | usize::from(u16_at(entry, 16)) << 16,
            })
            .collect();
        Self {
            units_per_em: f32::from(u16_at(header, 0)),
            missing: letters[0],
            letters,
            outlines,
        }
    }

    fn letter(&self, character: char) -> Option<Letter> {
        let code = u32::from(character);
        let found = self
            .letters
            .binary_search_by_key(&code, |letter| letter.character);
        found.ok().map(|nth| self.letters[nth])
    }

    fn draw(&self, letter: Letter, pen: &mut Pen) {
        let mut bytes = self.outlines[letter.offset..].iter().copied();
        let mut next = || bytes.next().unwrap_or(0);
        loop {
            let kind = next();
            let mut point = || [(); 2].map(|()| f32::from(i16::from_le_bytes([next(), next()])));
            match kind {
                1 => pen.move_to(point()),
                2 => pen.line_to(point()),
                3 => {
                    let control = point();
                    pen.curve_to(control, point());
                }
                4 => pen.close(),
                _ => return,
            }
        }
    }
}

/// Bytes of a letter in the table of a font.
const LETTER_LEN: usize = 18;

struct Fonts {
    regular: Face,
    bold: Face,
    mono: Face,
}

static FONTS: LazyLock<Fonts> = LazyLock::new(|| Fonts {
    regular: Face::parse(include_bytes!("../../fonts/DejaVuSans.outlines")),
    bold: Face::parse(include_bytes!("../../fonts/DejaVuSans-Bold.outlines")),
    mono: Face::parse(include_bytes!("../../fonts/DejaVuSansMono.outlines")),
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
