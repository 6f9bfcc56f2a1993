//! Down-sampling: many points in a few pixels, without losing anything visible.

/// The half pixels of a plot that vertical bars cover.
#[derive(Debug)]
pub(super) struct Cover {
    bits: Vec<u64>,
    words: usize,
    rows: usize,
    columns: usize,
    from: [f32; 2],
    /// Exact bars, as long as they are few.
    exact: Vec<[f32; 3]>,
    is_exact: bool,
}

impl Cover {
    /// Creates the cover of a plot with its upper left corner at `from`.
    pub(super) fn new(from: [f32; 2], size: [f32; 2]) -> Self {
        let columns = (size[0].clamp(1.0, PIXELS_MAX) * PER_PIXEL) as usize + 1;
        let rows = (size[1].clamp(1.0, PIXELS_MAX) * PER_PIXEL) as usize + 1;
        let words = rows.div_ceil(64);
        Self {
            bits: vec![0; words * columns],
            words,
            rows,
            columns,
            from,
            exact: Vec::new(),
            is_exact: true,
        }
    }

    /// Adds a bar at `x` from one y to another.
    pub(super) fn bar(&mut self, x: f32, y: f32, other: f32) {
        let (top, bottom) = (y.min(other), y.max(other));
        if self.is_exact {
            if self.exact.len() < EXACT_MAX {
                self.exact.push([x, top, bottom]);
            } else {
                self.is_exact = false;
                self.exact = Vec::new();
            }
        }
        let column = (((x - self.from[0]) * PER_PIXEL).max(0.0) as usize).min(self.columns - 1);
        let row = |y: f32| (((y - self.from[1]) * PER_PIXEL).max(0.0) as usize).min(self.rows - 1);
        self.fill(column, row(top), row(bottom));
    }

    /// Returns strokes that look the same: the exact bars, or at most [`STROKES_MAX`].
    pub(super) fn strokes(self) -> Vec<[f32; 3]> {
        if self.is_exact {
            return self.exact;
        }
        // Noise would need a stroke for every other row: gaps are closed, narrowest first, until there are few strokes.
        let mut gap = 0;
        loop {
            let strokes = self.runs(gap);
            if strokes.len() <= STROKES_MAX || gap > self.rows {
                return strokes;
            }
            gap = gap * 2 + 1;
        }
    }

    fn fill(&mut self, column: usize, first: usize, last: usize) {
        let words = &mut self.bits[column * self.words..(column + 1) * self.words];
        let (head, tail) = (first / 64, last / 64);
        let (from, to) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
        if head == tail {
            words[head] |= from & to;
        } else {
            words[head] |= from;
            words[head + 1..tail].fill(u64::MAX);
            words[tail] |= to;
        }
    }

    /// Returns the covered ranges of each column; gaps of up to `gap` rows count as covered.
    fn runs(&self, gap: usize) -> Vec<[f32; 3]> {
        let mut strokes = Vec::new();
        for (column, words) in self.bits.chunks_exact(self.words).enumerate() {
            let x = self.from[0] + (column as f32 + 0.5) / PER_PIXEL;
            let y = |row: usize| self.from[1] + row as f32 / PER_PIXEL;
            let mut run: Option<(usize, usize)> = None;
            for (nth, &word) in words.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    let start = rest.trailing_zeros() as usize;
                    let len = (rest >> start).trailing_ones() as usize;
                    let (first, end) = (nth * 64 + start, nth * 64 + start + len);
                    run = match run {
                        Some((from, to)) if first <= to + gap => Some((from, end)),
                        _ => {
                            strokes.extend(run.map(|(from, to)| [x, y(from), y(to)]));
                            Some((first, end))
                        }
                    };
                    rest = if start + len == 64 {
                        0
                    } else {
                        rest & (u64::MAX << (start + len))
                    };
                }
            }
            strokes.extend(run.map(|(from, to)| [x, y(from), y(to)]));
        }
        strokes
    }
}

/// A line with the first, lowest, highest and last point of each pixel column.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    points: Vec<[f32; 2]>,
    column: i32,
    first: [f32; 2],
    /// The extremes, and their indices, which give their order.
    low: ([f32; 2], u32),
    high: ([f32; 2], u32),
    last: [f32; 2],
    count: u32,
}

impl Envelope {
    /// Adds a point; x must not decrease.
    pub(super) fn point(&mut self, x: f32, y: f32) {
        let (point, column) = ([x, y], x as i32);
        if self.count > 0 && column == self.column {
            if y < self.low.0[1] {
                self.low = (point, self.count);
            }
            if y > self.high.0[1] {
                self.high = (point, self.count);
            }
            self.last = point;
            self.count = self.count.saturating_add(1);
            return;
        }
        self.flush();
        (self.column, self.count) = (column, 1);
        (self.first, self.last) = (point, point);
        (self.low, self.high) = ((point, 0), (point, 0));
    }

    /// Returns the points of the line.
    pub(super) fn points(mut self) -> Vec<[f32; 2]> {
        self.flush();
        self.points
    }

    fn flush(&mut self) {
        if self.count == 0 {
            return;
        }
        let (one, other) = if self.low.1 <= self.high.1 {
            (self.low.0, self.high.0)
        } else {
            (self.high.0, self.low.0)
        };
        for point in [self.first, one, other, self.last] {
            if self.points.last() != Some(&point) {
                self.points.push(point);
            }
        }
        self.count = 0;
    }
}

/// Cells per pixel, in both directions.
const PER_PIXEL: f32 = 2.0;
/// More than the width or height of any picture.
const PIXELS_MAX: f32 = 20_000.0;
/// Limit for bars that are drawn exactly.
const EXACT_MAX: usize = 4_000;
/// Limit for strokes of one paint in a plot.
const STROKES_MAX: usize = 24_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bars_are_exact() {
        let mut cover = Cover::new([10.0, 10.0], [100.0, 100.0]);
        cover.bar(20.25, 30.0, 28.5);
        assert_eq!(cover.strokes(), [[20.25, 28.5, 30.0]]);
    }

    #[test]
    fn many_bars_are_all_covered() {
        let mut cover = Cover::new([0.0, 0.0], [100.0, 200.0]);
        let mut bars = Vec::new();
        for nth in 0..10_000_u32 {
            let x = (nth * 7919 % 1000) as f32 / 10.0;
            let y = (nth * 104_729 % 1990) as f32 / 10.0;
            bars.push([x, y, y + (nth % 3) as f32 * 40.0]);
        }
        for [x, y, other] in &bars {
            cover.bar(*x, *y, other.min(200.0));
        }
        let strokes = cover.strokes();
        assert!(strokes.len() <= STROKES_MAX);
        for [x, y, other] in bars {
            let covered = strokes.iter().any(|[at, top, bottom]| {
                (at - x).abs() <= 0.5 && *top <= y + 0.01 && *bottom >= other.min(200.0) - 0.01
            });
            assert!(covered, "{x} {y} {other}");
        }
    }

    #[test]
    fn strokes_of_noise_are_limited() {
        let mut cover = Cover::new([0.0, 0.0], [2000.0, 1000.0]);
        for column in 0..4000_u32 {
            for row in (column % 2..2000).step_by(2) {
                cover.bar(column as f32 / 2.0, row as f32 / 2.0, row as f32 / 2.0);
            }
        }
        assert!(cover.strokes().len() <= STROKES_MAX);
    }

    #[test]
    fn line_keeps_extremes() {
        let mut envelope = Envelope::default();
        for nth in 0..1000_u16 {
            let y = if nth == 500 { 99.0 } else { f32::from(nth % 7) };
            envelope.point(f32::from(nth) / 100.0, y);
        }
        let points = envelope.points();
        assert!(points.len() <= 44, "{}", points.len());
        assert!(points.contains(&[5.0, 99.0]));
        assert!(points.is_sorted_by_key(|point| point[0]));
    }
}
