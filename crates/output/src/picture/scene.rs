//! A scene: a picture as a list of shapes, in pixels from the upper left corner.

use super::paint::Paint;
use super::text_metrics::{BOX_BASE, BOX_EDGE, BOX_TEXT, boxed, width_of};

/// A picture as shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Width, in pixels.
    pub width: f32,
    /// Height, in pixels.
    pub height: f32,
    /// Title, for screen readers.
    pub title: String,
    /// Description of the content, for screen readers.
    pub description: String,
    /// Shapes, from back to front.
    pub shapes: Vec<Shape>,
    /// Script and styles for a browser; `None` for a static picture.
    pub behaviour: Option<Behaviour>,
}

impl Scene {
    /// Returns each text with its left, top, right and bottom edge, in pixels, for tests of layouts.
    pub fn text_boxes(&self) -> Vec<(String, [f32; 4])> {
        let placed = |text: &str, at: [f32; 2], size: f32, anchor: Anchor, bold: bool, below: f32| {
            let width = width_of(text, size, bold);
            let left = match anchor {
                Anchor::Start => at[0],
                Anchor::Middle => at[0] - width / 2.0,
                Anchor::End => at[0] - width,
            };
            let edges = [left, at[1] - size * 0.76, left + width, at[1] + size * below];
            (text.to_owned(), edges)
        };
        let text = |shape: &Shape| match shape {
            Shape::Text {
                at,
                size,
                anchor,
                bold,
                text,
                ..
            } => Some(placed(text, *at, *size, *anchor, *bold, 0.24)),
            // Capitals and digits have nothing below the base line.
            Shape::Mark {
                sign: Sign::Letter(letter),
                at,
                count,
                ..
            } => Some(placed(
                &letters(letter, *count),
                *at,
                LETTER,
                Anchor::Middle,
                true,
                0.0,
            )),
            Shape::Box { at, size, text, .. } => {
                let text = boxed(text, size[0]);
                let right = at[0] + size[0] - BOX_EDGE;
                let base = at[1] + size[1] - BOX_BASE;
                let edges = [
                    at[0] + BOX_EDGE,
                    base - BOX_TEXT * 0.76,
                    right,
                    base + BOX_TEXT * 0.24,
                ];
                (!text.is_empty()).then_some((text, edges))
            }
            _ => None,
        };
        self.shapes.iter().filter_map(text).collect()
    }

    /// Returns the first text that leaves the picture, or two texts that overlap; `None` if every text can be read.
    pub fn unreadable_text(&self) -> Option<String> {
        let texts = self.text_boxes();
        for (nth, (text, [left, top, right, bottom])) in texts.iter().enumerate() {
            if *left < -0.01 || *top < -0.01 || *right > self.width + 0.01 || *bottom > self.height + 0.01 {
                return Some(format!(
                    "{text:?} leaves the picture: {left} {top} {right} {bottom}"
                ));
            }
            let overlapping = texts[nth + 1..].iter().find(|(_, other)| {
                *left < other[2] - 0.01
                    && other[0] < right - 0.01
                    && *top < other[3] - 0.01
                    && other[1] < bottom - 0.01
            });
            if let Some((other, edges)) = overlapping {
                return Some(format!(
                    "{text:?} at {left} {top} {right} {bottom} overlaps {other:?} at {edges:?}"
                ));
            }
        }
        None
    }
}

/// The script and styles of an interactive picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behaviour {
    /// A constant script that reads its data from the picture.
    pub script: &'static str,
    /// Constant styles for the script.
    pub style: &'static str,
}

/// Something that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A filled rectangle.
    Fill {
        /// Colour.
        paint: Paint,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// Width and height, in pixels.
        size: [f32; 2],
    },
    /// A rectangle with text, shortened to its width, and a tooltip.
    Box {
        /// Colour.
        paint: Paint,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// Width and height, in pixels.
        size: [f32; 2],
        /// The text.
        text: String,
        /// Text of the tooltip.
        more: String,
    },
    /// Vertical strokes; dots are short ones.
    Strokes {
        /// Colour.
        paint: Paint,
        /// Width of the line, in pixels.
        width: f32,
        /// Vertical strokes: x, first y, last y, in pixels.
        strokes: Vec<[f32; 3]>,
    },
    /// A line through points, straight or in steps: horizontal until the next point, then vertical.
    Line {
        /// Colour.
        paint: Paint,
        /// Width of the line, in pixels.
        width: f32,
        /// Whether points are joined by steps instead of straight lines.
        stairs: bool,
        /// Points, x and y in pixels.
        points: Vec<[f32; 2]>,
    },
    /// A mark at a position.
    Mark {
        /// Colour.
        paint: Paint,
        /// Kind of mark.
        sign: Sign,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// Horizontal range of the events that it represents, in pixels.
        span: [f32; 2],
        /// Number of these events.
        count: u32,
    },
    /// A line of text; its position is on its base line.
    Text {
        /// Colour.
        paint: Paint,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// Height of the letters, in pixels.
        size: f32,
        /// Part of the text that is at the position.
        anchor: Anchor,
        /// Whether the letters are bold.
        bold: bool,
        /// The text.
        text: String,
    },
}

/// Shape of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// A letter above the position.
    Letter(&'static str),
    /// A small diamond.
    Diamond,
    /// A short vertical stroke.
    Bar,
}

/// Returns the text of a mark with a letter.
pub fn letters(letter: &str, count: u32) -> String {
    if count > 1 {
        format!("{letter}×{count}")
    } else {
        letter.to_owned()
    }
}

/// Size of the letters of marks, in pixels.
pub const LETTER: f32 = 9.0;

/// Part of a text that is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}
