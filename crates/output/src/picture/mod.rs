//! Pictures of anything: shapes at places, written as SVG or as pixels.

pub mod font;
pub mod lettering;
pub mod paint;
pub mod png;
pub mod raster;
pub mod scene;
pub mod steps;
pub mod svg;

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphTheme {
    /// As whoever looks at it prefers, where the format can ask; else light
    Reader,
    /// Dark on white
    Light,
    /// Light on black
    Dark,
}
