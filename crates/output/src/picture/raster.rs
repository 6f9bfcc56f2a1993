//! Draws a scene into pixels, with antialiasing.

use super::GraphTheme;
use super::font::{self, Typeface};
use super::paint::Paint;
use super::scene::{Anchor, LETTER, Scene, Shape, Sign, letters};
use super::text_metrics;

/// Pixels, row by row, three bytes each.
#[derive(Debug)]
pub struct Bitmap {
    /// Width, in pixels.
    pub width: usize,
    /// Height, in pixels.
    pub height: usize,
    /// Red, green and blue of each pixel, row by row from the top.
    pub pixels: Vec<u8>,
    /// Whether it was drawn with the dark theme.
    pub is_dark: bool,
}

/// Draws a scene; each of its pixels becomes `scale` by `scale` pixels.
pub fn draw(scene: &Scene, theme: GraphTheme, scale: u32) -> Bitmap {
    let is_dark = theme == GraphTheme::Dark;
    // The memory of a picture is limited: a too large scene is drawn at a smaller scale.
    let area = f64::from(scene.width) * f64::from(scene.height);
    let most = (PIXELS_MAX / area.max(1.0)).sqrt() as f32;
    let scale = (scale.clamp(1, 4) as f32).min(most);
    let (width, height) = ((scene.width * scale) as usize, (scene.height * scale) as usize);
    let page = rgb(Paint::Page, is_dark);
    let mut canvas = Canvas {
        scale,
        bitmap: Bitmap {
            width,
            height,
            pixels: page.repeat(width * height),
            is_dark,
        },
    };
    for shape in &scene.shapes {
        canvas.shape(shape);
    }
    canvas.bitmap
}

struct Canvas {
    scale: f32,
    bitmap: Bitmap,
}

impl Canvas {
    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Fill { paint, at, size } => self.fill(*paint, at[0], at[1], size[0], size[1]),
            Shape::Box {
                paint,
                at,
                size,
                text,
                ..
            } => {
                self.fill(*paint, at[0], at[1], size[0], size[1]);
                let shown = text_metrics::boxed(text, size[0]);
                if !shown.is_empty() {
                    let at = [
                        at[0] + text_metrics::BOX_EDGE,
                        at[1] + size[1] - text_metrics::BOX_BASE,
                    ];
                    self.text(
                        Paint::Text,
                        at,
                        text_metrics::BOX_TEXT,
                        Anchor::Start,
                        Typeface::Mono,
                        &shown,
                    );
                }
            }
            Shape::Strokes {
                paint,
                width,
                strokes,
            } => {
                for [x, top, bottom] in strokes {
                    self.fill(*paint, x - width / 2.0, *top, *width, bottom - top);
                }
            }
            Shape::Line {
                paint,
                width,
                stairs,
                points,
            } => {
                for pair in points.windows(2) {
                    let ([ax, ay], [bx, by]) = (pair[0], pair[1]);
                    if *stairs {
                        self.fill(
                            *paint,
                            ax.min(bx) - width / 2.0,
                            ay - width / 2.0,
                            (bx - ax).abs() + width,
                            *width,
                        );
                        self.fill(
                            *paint,
                            bx - width / 2.0,
                            ay.min(by) - width / 2.0,
                            *width,
                            (by - ay).abs() + width,
                        );
                    } else {
                        self.line(*paint, *width, pair[0], pair[1]);
                    }
                }
            }
            Shape::Mark {
                paint,
                sign,
                at,
                span,
                count,
            } => match sign {
                Sign::Letter(letter) => {
                    let label = letters(letter, *count);
                    self.text(*paint, *at, LETTER, Anchor::Middle, Typeface::Bold, &label);
                    if span[1] - span[0] >= 1.0 {
                        self.fill(*paint, span[0], at[1] + 1.0, span[1] - span[0], 0.8);
                    }
                }
                Sign::Diamond => {
                    let [x, y] = *at;
                    let corners = [
                        [x, y - 2.5],
                        [x + 2.0, y],
                        [x, y + 2.5],
                        [x - 2.0, y],
                        [x, y - 2.5],
                    ];
                    for pair in corners.windows(2) {
                        self.line(*paint, 0.8, pair[0], pair[1]);
                    }
                }
                Sign::Bar => self.fill(*paint, at[0] - 0.5, at[1] - 4.0, 1.0, 8.0),
            },
            Shape::Text {
                paint,
                at,
                size,
                anchor,
                bold,
                text,
            } => self.text(*paint, *at, *size, *anchor, Typeface::with_weight(*bold), text),
        }
    }

    fn text(
        &mut self,
        paint: Paint,
        at: [f32; 2],
        size: f32,
        anchor: Anchor,
        typeface: Typeface,
        text: &str,
    ) {
        let left = match anchor {
            Anchor::Start => at[0],
            Anchor::Middle => at[0] - font::width(text, size, typeface) / 2.0,
            Anchor::End => at[0] - font::width(text, size, typeface),
        };
        let color = rgb(paint, self.bitmap.is_dark);
        let scale = self.scale;
        font::draw(
            text,
            [left * scale, at[1] * scale],
            size * scale,
            typeface,
            &mut |column, row, share| {
                if column < self.bitmap.width && row < self.bitmap.height {
                    self.blend(column, row, color, share);
                }
            },
        );
    }

    /// Draws a rectangle; pixels at its edges are blended by the part that it covers.
    fn fill(&mut self, paint: Paint, x: f32, y: f32, width: f32, height: f32) {
        let color = rgb(paint, self.bitmap.is_dark);
        let [left, top, right, bottom] = [x, y, x + width, y + height].map(|edge| edge * self.scale);
        let [columns, rows] = [
            (left, right, self.bitmap.width),
            (top, bottom, self.bitmap.height),
        ]
        .map(|(from, to, most)| (from.max(0.0) as usize).min(most)..(to.max(0.0).ceil() as usize).min(most));
        for row in rows {
            let tall = (bottom.min(row as f32 + 1.0) - top.max(row as f32)).clamp(0.0, 1.0);
            for column in columns.clone() {
                let wide = (right.min(column as f32 + 1.0) - left.max(column as f32)).clamp(0.0, 1.0);
                self.blend(column, row, color, tall * wide);
            }
        }
    }

    /// Draws a line with round ends; each pixel is blended by its distance from the line.
    fn line(&mut self, paint: Paint, width: f32, from: [f32; 2], to: [f32; 2]) {
        let color = rgb(paint, self.bitmap.is_dark);
        let [[ax, ay], [bx, by]] = [from, to].map(|[x, y]| [x * self.scale, y * self.scale]);
        let radius = width * self.scale / 2.0;
        let reach = radius + 1.0;
        let clip = |from: f32, to: f32, most: usize| {
            ((from.min(to) - reach).max(0.0) as usize).min(most)
                ..((from.max(to) + reach).max(0.0).ceil() as usize).min(most)
        };
        let (right, down) = (bx - ax, by - ay);
        let square = right * right + down * down;
        for row in clip(ay, by, self.bitmap.height) {
            for column in clip(ax, bx, self.bitmap.width) {
                let (x, y) = (column as f32 + 0.5 - ax, row as f32 + 0.5 - ay);
                let along = if square > 0.0 {
                    ((x * right + y * down) / square).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let distance = (x - along * right).hypot(y - along * down);
                self.blend(column, row, color, (radius + 0.5 - distance).clamp(0.0, 1.0));
            }
        }
    }

    fn blend(&mut self, column: usize, row: usize, color: [u8; 3], share: f32) {
        if share <= 0.0 {
            return;
        }
        let at = (row * self.bitmap.width + column) * 3;
        if let Some(pixel) = self.bitmap.pixels.get_mut(at..at + 3) {
            if share >= 1.0 {
                pixel.copy_from_slice(&color);
                return;
            }
            for (part, new) in pixel.iter_mut().zip(color) {
                *part = (f32::from(*part) + (f32::from(new) - f32::from(*part)) * share).round() as u8;
            }
        }
    }
}

/// Returns red, green and blue of a paint.
pub fn rgb(paint: Paint, is_dark: bool) -> [u8; 3] {
    let [_, red, green, blue] = paint.color(is_dark).to_be_bytes();
    [red, green, blue]
}

/// 64 million pixels are 192 MB.
const PIXELS_MAX: f64 = 64e6;
