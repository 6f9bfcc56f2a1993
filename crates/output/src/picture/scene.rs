//! A scene: a picture as a list of shapes, in pixels from the upper left corner.

use super::paint::Paint;

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
