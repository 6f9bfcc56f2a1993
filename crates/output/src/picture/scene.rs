//! A laid-out graph as a few kinds of shapes, in pixels from the upper left corner.

use super::paint::Paint;

/// Everything that is drawn, from back to front.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub(crate) width: f32,
    pub(crate) height: f32,
    /// For those who do not see it: what it is
    pub(crate) title: String,
    /// And what it shows
    pub(crate) description: String,
    pub(crate) shapes: Vec<Shape>,
    /// What a browser may do with it; without that it is a picture like others
    pub(crate) behaviour: Option<Behaviour>,
}

/// A script of ours, for pictures that can be looked into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Behaviour {
    /// It takes its data from the picture; nothing from outside is in it
    pub(crate) script: &'static str,
    /// Its styles
    pub(crate) style: &'static str,
}

/// Something that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// A filled rectangle
    Fill {
        paint: Paint,
        at: [f32; 2],
        size: [f32; 2],
    },
    /// A rectangle with a word in it, as far as there is room, and more for whoever points at it
    Box {
        paint: Paint,
        at: [f32; 2],
        size: [f32; 2],
        text: String,
        more: String,
    },
    /// Upright strokes: x, and from which y to which; dots are short ones
    Strokes {
        paint: Paint,
        width: f32,
        strokes: Vec<[f32; 3]>,
    },
    /// A line through points, or stairs: level until the next point, then up or down to it
    Line {
        paint: Paint,
        width: f32,
        stairs: bool,
        points: Vec<[f32; 2]>,
    },
    /// Something at a place
    Mark {
        paint: Paint,
        sign: Sign,
        at: [f32; 2],
        /// The columns of all that it stands for, from the first to the last
        span: [f32; 2],
        /// How many these are
        count: u32,
    },
    /// A line of text, by its base line
    Text {
        paint: Paint,
        at: [f32; 2],
        size: f32,
        anchor: Anchor,
        bold: bool,
        text: String,
    },
}

/// What a mark looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sign {
    /// A letter above the place
    Letter(&'static str),
    /// A small diamond
    Diamond,
    /// A short upright stroke
    Bar,
}

/// Which end of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}
