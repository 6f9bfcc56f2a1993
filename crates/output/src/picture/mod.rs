//! Pictures: scenes of shapes, written as SVG, PNG or pixels.

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
