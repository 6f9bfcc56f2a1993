//! Pictures: scenes of shapes, written as SVG, PNG or pixels.
//!
//! SVG and pixels are written here although libraries exist (`svg`, `resvg`, `tiny-skia`): a scene has only lines, areas and text, which
//! take 570 lines, and its SVG follows the viewer's light or dark theme. `resvg` reads SVG of every kind, which is not needed, and takes
//! its text from fonts of the host, which a server may not have.

pub mod font;
pub mod paint;
pub mod png;
pub mod raster;
pub mod scene;
pub mod steps;
pub mod svg;
pub mod text_metrics;

/// Light or dark theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphTheme {
    /// As the viewer prefers, where the format supports it; else light.
    Auto,
    /// Dark text on white.
    Light,
    /// Light text on black.
    Dark,
}
