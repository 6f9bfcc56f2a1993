//! Pictures of anything: shapes at places, written as SVG or as pixels.

pub(crate) mod font;
pub(crate) mod lettering;
pub(crate) mod paint;
pub(crate) mod png;
pub(crate) mod raster;
pub(crate) mod scene;
pub(crate) mod steps;
pub(crate) mod svg;

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
