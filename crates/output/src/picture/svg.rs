//! Self-contained SVG: no script, font or style from another file, light or dark as the viewer prefers. Only interactive
//! pictures have a script, which is a constant of this workspace.

use super::GraphTheme;
use super::paint::Paint;
use super::scene::{Anchor, LETTER, Scene, Shape, Sign, letters};
use super::text_metrics;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Writes a scene as an SVG document.
pub fn write(out: &mut impl Write, scene: &Scene, theme: GraphTheme) -> io::Result<()> {
    let mut text = String::with_capacity(256 * 1024);
    push_head(&mut text, scene, theme);
    for shape in &scene.shapes {
        push_shape(&mut text, shape);
    }
    if let Some(behaviour) = scene.behaviour {
        text.push_str("<script>//<![CDATA[\n");
        text.push_str(behaviour.script);
        text.push_str("//]]></script>\n");
    }
    text.push_str("</svg>\n");
    out.write_all(text.as_bytes())
}

fn push_head(out: &mut String, scene: &Scene, theme: GraphTheme) {
    let (width, height) = (scene.width.round(), scene.height.round());
    out.push_str(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">"
    ));
    push_escaped(out, &scene.title);
    out.push_str("</title>\n<desc id=\"d\">");
    push_escaped(out, &scene.description);
    out.push_str("</desc>\n<style>\nsvg{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif;background:");
    let is_dark = theme == GraphTheme::Dark;
    out.push_str(&format!("#{:06x}", Paint::Page.color(is_dark)));
    out.push_str("}\ntext{stroke:none;font-variant-numeric:tabular-nums}\npath{fill:none}\n");
    let paints = paints(scene);
    push_colors(out, &paints, is_dark);
    if theme == GraphTheme::Auto {
        out.push_str("@media (prefers-color-scheme:dark){\n");
        out.push_str(&format!("svg{{background:#{:06x}}}\n", Paint::Page.color(true)));
        push_colors(out, &paints, true);
        out.push_str("}\n");
    }
    if let Some(behaviour) = scene.behaviour {
        out.push_str(behaviour.style);
    }
    out.push_str("</style>\n");
    out.push_str(&format!(
        "<rect class=\"pg\" width=\"{width}\" height=\"{height}\"/>\n"
    ));
}

/// Returns the paints of every picture, and those of the boxes in this one.
fn paints(scene: &Scene) -> Vec<Paint> {
    let boxes: BTreeSet<Paint> = scene
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Box {
                paint: paint @ Paint::Flame(..),
                ..
            } => Some(*paint),
            _ => None,
        })
        .collect();
    Paint::ALL.into_iter().chain(boxes).collect()
}

/// Appends a class for each paint: `fill` for text and rectangles, `stroke` for paths.
fn push_colors(out: &mut String, paints: &[Paint], is_dark: bool) {
    for paint in paints {
        let (class, color) = (paint.class(), paint.color(is_dark));
        out.push_str(&format!(
            ".{class}{{fill:#{color:06x};stroke:none}}path.{class}{{fill:none;stroke:#{color:06x}}}\n"
        ));
    }
}

fn push_shape(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Fill { paint, at, size } => push_rectangle(out, *paint, *at, *size),
        Shape::Box {
            paint,
            at,
            size,
            text,
            more,
        } => {
            out.push_str("<g class=\"b\"><title>");
            push_escaped(out, more);
            out.push_str("</title>");
            push_rectangle(out, *paint, *at, *size);
            let shown = text_metrics::boxed(text, size[0]);
            if !shown.is_empty() {
                let at = [
                    at[0] + text_metrics::BOX_EDGE,
                    at[1] + size[1] - text_metrics::BOX_BASE,
                ];
                push_text(
                    out,
                    Paint::Text,
                    at,
                    text_metrics::BOX_TEXT,
                    Anchor::Start,
                    false,
                    &shown,
                );
            }
            out.push_str("</g>\n");
        }
        Shape::Strokes {
            paint,
            width,
            strokes,
        } => {
            push_path(out, *paint, *width);
            let mut pen = [0; 2];
            for [x, top, bottom] in strokes {
                move_pen(out, &mut pen, [tenths(*x), tenths(*top)]);
                out.push('v');
                let down = tenths(*bottom) - tenths(*top);
                push_tenths(out, down);
                pen[1] += down;
            }
            out.push_str("\"/>\n");
        }
        Shape::Line {
            paint,
            width,
            stairs,
            points,
        } => {
            push_path(out, *paint, *width);
            let mut pen = [0; 2];
            for (nth, [x, y]) in points.iter().enumerate() {
                let to = [tenths(*x), tenths(*y)];
                if nth == 0 {
                    move_pen(out, &mut pen, to);
                    continue;
                }
                let [right, down] = [to[0] - pen[0], to[1] - pen[1]];
                if *stairs || right == 0 || down == 0 {
                    if right != 0 {
                        out.push('h');
                        push_tenths(out, right);
                    }
                    if down != 0 {
                        out.push('v');
                        push_tenths(out, down);
                    }
                } else {
                    out.push('l');
                    push_pair(out, right, down);
                }
                pen = to;
            }
            out.push_str("\"/>\n");
        }
        Shape::Mark {
            paint,
            sign,
            at,
            span,
            count,
        } => push_mark(out, *paint, *sign, *at, *span, *count),
        Shape::Text {
            paint,
            at,
            size,
            anchor,
            bold,
            text,
        } => push_text(out, *paint, *at, *size, *anchor, *bold, text),
    }
}

fn push_rectangle(out: &mut String, paint: Paint, at: [f32; 2], size: [f32; 2]) {
    out.push_str("<rect class=\"");
    out.push_str(paint.class());
    out.push_str("\" x=\"");
    push_number(out, at[0]);
    out.push_str("\" y=\"");
    push_number(out, at[1]);
    out.push_str("\" width=\"");
    push_number(out, size[0]);
    out.push_str("\" height=\"");
    push_number(out, size[1]);
    out.push_str("\"/>\n");
}

fn push_mark(out: &mut String, paint: Paint, sign: Sign, at: [f32; 2], span: [f32; 2], count: u32) {
    match sign {
        Sign::Letter(letter) => {
            let label = letters(letter, count);
            push_text(out, paint, at, LETTER, Anchor::Middle, true, &label);
            if span[1] - span[0] >= 1.0 {
                push_shape(
                    out,
                    &Shape::Fill {
                        paint,
                        at: [span[0], at[1] + 1.0],
                        size: [span[1] - span[0], 0.8],
                    },
                );
            }
        }
        Sign::Diamond => {
            push_path(out, paint, 0.8);
            move_pen(out, &mut [0; 2], [tenths(at[0]), tenths(at[1]) - 25]);
            out.push_str("l2 2.5-2 2.5-2-2.5z\"/>\n");
        }
        Sign::Bar => push_shape(
            out,
            &Shape::Fill {
                paint,
                at: [at[0] - 0.5, at[1] - 4.0],
                size: [1.0, 8.0],
            },
        ),
    }
}

fn push_text(
    out: &mut String,
    paint: Paint,
    at: [f32; 2],
    size: f32,
    anchor: Anchor,
    bold: bool,
    text: &str,
) {
    out.push_str(&format!("<text class=\"{}\" x=\"", paint.class()));
    push_number(out, at[0]);
    out.push_str("\" y=\"");
    push_number(out, at[1]);
    out.push_str(&format!("\" font-size=\"{size}\""));
    match anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
        Anchor::End => out.push_str(" text-anchor=\"end\""),
    }
    if bold {
        out.push_str(" font-weight=\"600\"");
    }
    out.push('>');
    push_escaped(out, text);
    out.push_str("</text>\n");
}

fn push_path(out: &mut String, paint: Paint, width: f32) {
    out.push_str(&format!(
        "<path class=\"{}\" stroke-width=\"{width}\" d=\"",
        paint.class()
    ));
}

/// Appends a move: relative, which is shorter, except for the first.
fn move_pen(out: &mut String, pen: &mut [i32; 2], to: [i32; 2]) {
    if *pen == [0; 2] {
        out.push('M');
        push_pair(out, to[0], to[1]);
    } else {
        out.push('m');
        push_pair(out, to[0] - pen[0], to[1] - pen[1]);
    }
    *pen = to;
}

fn push_pair(out: &mut String, one: i32, other: i32) {
    push_tenths(out, one);
    if other >= 0 {
        out.push(' ');
    }
    push_tenths(out, other);
}

/// Returns tenths of a pixel, which are precise enough.
fn tenths(pixels: f32) -> i32 {
    (pixels * 10.0).round() as i32
}

fn push_number(out: &mut String, pixels: f32) {
    push_tenths(out, tenths(pixels));
}

fn push_tenths(out: &mut String, tenths: i32) {
    if tenths < 0 {
        out.push('-');
    }
    let (whole, rest) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    if whole > 0 || rest == 0 {
        out.push_str(&whole.to_string());
    }
    if rest > 0 {
        out.push('.');
        out.push(char::from(b'0' + rest as u8));
    }
}

/// Appends text for XML and HTML: markup is escaped, characters that XML does not allow are left out.
pub fn push_escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            _ => out.push(character),
        }
    }
}
