//! A laid-out graph as a few kinds of shapes, in pixels from the upper left corner.

use super::paint::Paint;

/// Everything that is drawn, from back to front.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Width, in pixels.
    pub width: f32,
    /// Height, in pixels.
    pub height: f32,
    /// For those who do not see it: what it is
    pub title: String,
    /// And what it shows
    pub description: String,
    /// Shapes, from back to front.
    pub shapes: Vec<Shape>,
    /// What a browser may do with it; without that it is a picture like others
    pub behaviour: Option<Behaviour>,
}

/// A script of ours, for pictures that can be looked into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behaviour {
    /// It takes its data from the picture; nothing from outside is in it
    pub script: &'static str,
    /// Its styles
    pub style: &'static str,
}

/// Something that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A filled rectangle
    Fill {
        /// Colour.
        paint: Paint,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// Width and height, in pixels.
        size: [f32; 2],
    },
    /// A rectangle with a word in it, as far as there is room, and more for whoever points at it
    Box {
        /// Colour.
        paint: Paint,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// Width and height, in pixels.
        size: [f32; 2],
        /// The text.
        text: String,
        /// Text that a pointer shows.
        more: String,
    },
    /// Upright strokes: x, and from which y to which; dots are short ones
    Strokes {
        /// Colour.
        paint: Paint,
        /// Width of the line, in pixels.
        width: f32,
        /// Vertical strokes: x, first y, last y, in pixels.
        strokes: Vec<[f32; 3]>,
    },
    /// A line through points, or stairs: level until the next point, then up or down to it
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
    /// Something at a place
    Mark {
        /// Colour.
        paint: Paint,
        /// Kind of mark.
        sign: Sign,
        /// Position, x and y in pixels from the top left.
        at: [f32; 2],
        /// The columns of all that it stands for, from the first to the last
        span: [f32; 2],
        /// How many these are
        count: u32,
    },
    /// A line of text, by its base line
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

/// What a mark looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sign {
    /// A letter above the place
    Letter(&'static str),
    /// A small diamond
    Diamond,
    /// A short upright stroke
    Bar,
}

/// Which end of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}
