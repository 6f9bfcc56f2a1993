//! DEC's sixels: bands of six rows, each drawn once per colour.
//!
//! Written here although `icy_sixel` 0.7 exists: it adds 22 packages, most of which choose colours for photographs. A graph has
//! few colours, which are known in advance.

use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::raster::{Bitmap, rgb};
use std::collections::HashMap;
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, bitmap: &Bitmap) -> io::Result<()> {
    let palette = palette(bitmap.is_dark);
    let mut nearest = HashMap::<[u8; 3], u8>::new();
    let indexed: Vec<u8> = bitmap
        .pixels
        .as_chunks::<3>()
        .0
        .iter()
        .map(|pixel| *nearest.entry(*pixel).or_insert_with(|| closest(&palette, *pixel)))
        .collect();

    let mut text = format!("\x1bPq\"1;1;{};{}", bitmap.width, bitmap.height);
    for (nth, color) in palette.iter().enumerate() {
        let [red, green, blue] = color.map(|part| (u32::from(part) * 100 + 127) / 255);
        text.push_str(&format!("#{nth};2;{red};{green};{blue}"));
    }
    for band in indexed.chunks(bitmap.width.max(1) * 6) {
        push_band(&mut text, band, bitmap.width.max(1), palette.len());
        out.write_all(text.as_bytes())?;
        text.clear();
    }
    out.write_all(b"\x1b\\\n")
}

/// Appends a band of six rows: for each colour, which of the six pixels of each column have it.
fn push_band(text: &mut String, band: &[u8], width: usize, colors: usize) {
    let mut columns = vec![Vec::new(); colors];
    for (row, cells) in band.chunks_exact(width).enumerate() {
        for (column, color) in cells.iter().enumerate() {
            let Some(dots) = columns.get_mut(usize::from(*color)) else {
                continue;
            };
            if dots.is_empty() {
                dots.resize(width, 0_u8);
            }
            dots[column] |= 1 << row;
        }
    }
    for (color, dots) in columns.iter().enumerate().filter(|(_, dots)| !dots.is_empty()) {
        text.push_str(&format!("#{color}"));
        let mut runs = dots.chunk_by(|one, other| one == other).peekable();
        while let Some(run) = runs.next() {
            if run[0] != 0 || runs.peek().is_some() {
                push_run(text, run[0], run.len());
            }
        }
        text.push('$');
    }
    text.push('-');
}

fn push_run(text: &mut String, dots: u8, times: usize) {
    let sixel = char::from(b'?' + dots);
    if times > 3 {
        text.push_str(&format!("!{times}{sixel}"));
    } else {
        text.extend(std::iter::repeat_n(sixel, times));
    }
}

/// Returns every paint, and its blends with the background, for antialiased edges.
fn palette(is_dark: bool) -> Vec<[u8; 3]> {
    let page = rgb(Paint::Page, is_dark);
    let mut palette = vec![page];
    for paint in Paint::ALL.into_iter().filter(|paint| *paint != Paint::Page) {
        let color = rgb(paint, is_dark);
        for share in [4_u16, 2, 3, 1] {
            let mixed = [0, 1, 2].map(|part| {
                let (one, other) = (u16::from(color[part]), u16::from(page[part]));
                ((one * share + other * (4 - share)) / 4) as u8
            });
            palette.push(mixed);
        }
    }
    palette
}

fn closest(palette: &[[u8; 3]], pixel: [u8; 3]) -> u8 {
    let distance = |color: &[u8; 3]| -> u32 {
        let parts = color.iter().zip(pixel);
        parts
            .map(|(one, other)| u32::from(one.abs_diff(other)).pow(2))
            .sum()
    };
    let closest = palette
        .iter()
        .enumerate()
        .min_by_key(|(_, color)| distance(color));
    closest.map_or(0, |(nth, _)| nth as u8)
}
