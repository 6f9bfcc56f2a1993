//! Marks in a plot; marks too close together are merged into one with a count.

use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{LETTER, Shape, Sign, letters};
use sockeye_output::picture::text_metrics::width_of;
use std::collections::BTreeMap;

/// Marks of one plot.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<(Paint, Sign, i32, i32), Cluster>);

#[derive(Debug, Clone, Copy)]
struct Cluster {
    top: f32,
    span: [f32; 2],
    count: u32,
}

impl Marks {
    /// Adds a mark.
    pub(super) fn add(&mut self, paint: Paint, sign: Sign, x: f32, y: f32) {
        let cluster = Cluster {
            top: y,
            span: [x, x],
            count: 1,
        };
        self.insert(CELL, paint, sign, cluster);
    }

    fn insert(&mut self, cell: [f32; 2], paint: Paint, sign: Sign, new: Cluster) {
        let [column, row] = [new.middle() / cell[0], new.top / cell[1]].map(|cell| cell as i32);
        self.0
            .entry((paint, sign, column, row))
            .and_modify(|cluster| *cluster = cluster.with(new))
            .or_insert(new);
    }

    /// Returns all marks as shapes, with letters that do not overlap, below `top` and between `left` and `right`.
    pub(super) fn into_shapes(self, top: f32, [left, right]: [f32; 2]) -> Vec<Shape> {
        let mut merged = merged(self.0);
        // Noise would fill the plot with letters: cells grow, and marks in them are merged, until there are few.
        let mut cell = CELL;
        while merged.len() > MARKS_MAX && cell[0] < 4_096.0 {
            cell = cell.map(|side| side * 2.0);
            let mut marks = Self::default();
            for (paint, sign, cluster) in merged {
                marks.insert(cell, paint, sign, cluster);
            }
            merged = self::merged(marks.0);
        }
        // Letters are not over diamonds either.
        let diamonds = merged.iter().filter(|(_, sign, _)| *sign == Sign::Diamond);
        let mut placed: Vec<[f32; 3]> = diamonds
            .map(|(.., cluster)| {
                let middle = cluster.middle();
                [middle - DIAMOND, middle + DIAMOND, cluster.top + LETTER / 2.0]
            })
            .collect();
        let mut shapes: Vec<Shape> = merged
            .into_iter()
            .map(|(paint, sign, cluster)| {
                let (mut middle, mut y) = (cluster.middle(), cluster.top);
                let mut sign = sign;
                if let Sign::Letter(letter) = sign {
                    let half = width_of(&letters(letter, cluster.count), LETTER, true) / 2.0;
                    middle = middle.min(right - half).max(left + half);
                    let is_free = |y: f32| {
                        let hits = |[from, to, base]: &[f32; 3]| {
                            middle + half > *from && middle - half < *to && (y - base).abs() < LETTER
                        };
                        y - LETTER >= top - 0.01 && !placed.iter().any(hits)
                    };
                    let above = (0..ROWS_MAX).map(|row| cluster.top - row as f32 * LETTER);
                    match above.into_iter().find(|y| is_free(*y)) {
                        Some(free) => {
                            y = free;
                            placed.push([middle - half, middle + half, y]);
                        }
                        // The place is shown, and the row of events below has the count.
                        None => {
                            sign = Sign::Bar;
                            y = y.max(top + BAR);
                        }
                    }
                }
                Shape::Mark {
                    paint,
                    sign,
                    at: [middle, y],
                    span: cluster.span,
                    count: cluster.count,
                }
            })
            .collect();
        // What has no free place at all is at least not hidden.
        let is_letter = |shape: &Shape| {
            matches!(
                shape,
                Shape::Mark {
                    sign: Sign::Letter(_),
                    ..
                }
            )
        };
        shapes.sort_by_key(is_letter);
        shapes
    }
}

/// Returns the marks from left to right; letters that would overlap are merged.
fn merged(cells: BTreeMap<(Paint, Sign, i32, i32), Cluster>) -> Vec<(Paint, Sign, Cluster)> {
    let mut clusters: Vec<_> = cells
        .into_iter()
        .map(|((paint, sign, ..), cluster)| (paint, sign, cluster))
        .collect();
    clusters.sort_by(|(.., one), (.., other)| one.span[0].total_cmp(&other.span[0]));
    let mut merged: Vec<(Paint, Sign, Cluster)> = Vec::new();
    for (paint, sign, cluster) in clusters {
        let mut recent = merged.iter_mut().rev().take(LOOK_BACK);
        let same = recent
            .find(|(one, other, before)| *one == paint && *other == sign && before.touches(&cluster, sign));
        match same {
            Some((.., before)) => *before = before.with(cluster),
            None => merged.push((paint, sign, cluster)),
        }
    }
    merged
}

impl Cluster {
    fn with(self, other: Self) -> Self {
        Self {
            top: self.top.min(other.top),
            span: [self.span[0].min(other.span[0]), self.span[1].max(other.span[1])],
            count: self.count.saturating_add(other.count),
        }
    }

    fn middle(&self) -> f32 {
        f32::midpoint(self.span[0], self.span[1])
    }

    /// Returns the width of its letters or of its span, whichever is larger.
    fn width(&self, sign: Sign) -> f32 {
        let Sign::Letter(letter) = sign else { return 0.0 };
        width_of(&letters(letter, self.count), LETTER, true).max(self.span[1] - self.span[0])
    }

    /// Returns whether the letters of both would overlap.
    fn touches(&self, other: &Self, sign: Sign) -> bool {
        let apart = (self.middle() - other.middle()).abs();
        let merged = self.with(*other);
        matches!(sign, Sign::Letter(_))
            && apart < f32::midpoint(self.width(sign), other.width(sign)) + 2.0
            && (self.top - other.top).abs() < LETTER
            && merged.span[1] - merged.span[0] < SPAN_MAX
    }
}

/// Cell in which marks are merged, in pixels; a letter with a count of three digits fits.
const CELL: [f32; 2] = [17.0, 13.0];
/// Limit for marks of a plot.
const MARKS_MAX: usize = 600;
/// Widest span of merged letters.
const SPAN_MAX: f32 = 60.0;
/// Places that are tried for a letter, one above the other.
const ROWS_MAX: u32 = 6;
/// Half the width of a diamond.
const DIAMOND: f32 = 3.5;
/// Half the height of a bar.
const BAR: f32 = 4.0;
/// Marks are sorted: only this many before a mark can be near it.
const LOOK_BACK: usize = 64;
