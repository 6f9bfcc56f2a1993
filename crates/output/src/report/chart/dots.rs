//! The look of curves: a colour, and a shape for the points, for each.

use crate::picture::paint::Paint;
use crate::picture::scene::Shape;

/// Returns the line of the nth curve.
pub(super) fn line(nth: usize, points: Vec<[f32; 2]>) -> Shape {
    Shape::Line {
        paint: paint(nth),
        width: 1.8,
        stairs: false,
        points,
    }
}

/// Returns the dot at a point of the nth curve.
pub(super) fn dot(at: [f32; 2], nth: usize) -> Shape {
    // Seven shapes and eight colours: no two of the first fifty-six look the same.
    let outline = OUTLINES[nth % OUTLINES.len()];
    Shape::Line {
        paint: paint(nth),
        width: 1.7,
        stairs: false,
        points: outline.iter().map(|[x, y]| [at[0] + x, at[1] + y]).collect(),
    }
}

fn paint(nth: usize) -> Paint {
    Paint::CURVES[nth % Paint::CURVES.len()]
}

/// Each is one line, relative to the centre of the dot.
const OUTLINES: [&[[f32; 2]]; 7] = [
    // A circle
    &[
        [3.2, 0.0],
        [2.3, 2.3],
        [0.0, 3.2],
        [-2.3, 2.3],
        [-3.2, 0.0],
        [-2.3, -2.3],
        [0.0, -3.2],
        [2.3, -2.3],
        [3.2, 0.0],
        [2.3, 2.3],
    ],
    // A square
    &[
        [-3.0, -3.0],
        [3.0, -3.0],
        [3.0, 3.0],
        [-3.0, 3.0],
        [-3.0, -3.0],
        [3.0, -3.0],
    ],
    // A triangle
    &[[0.0, -4.0], [3.6, 2.6], [-3.6, 2.6], [0.0, -4.0], [3.6, 2.6]],
    // A diamond
    &[
        [0.0, -4.2],
        [4.2, 0.0],
        [0.0, 4.2],
        [-4.2, 0.0],
        [0.0, -4.2],
        [4.2, 0.0],
    ],
    // A cross
    &[[-3.2, -3.2], [3.2, 3.2], [0.0, 0.0], [3.2, -3.2], [-3.2, 3.2]],
    // A triangle upside down
    &[[0.0, 4.0], [3.6, -2.6], [-3.6, -2.6], [0.0, 4.0], [3.6, -2.6]],
    // A plus
    &[[-4.0, 0.0], [4.0, 0.0], [0.0, 0.0], [0.0, -4.0], [0.0, 4.0]],
];
