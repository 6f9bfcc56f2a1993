//! Kitty's graphics protocol: a PNG in base64, in pieces of a limited size.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sockeye_output::picture::png;
use sockeye_output::picture::raster::Bitmap;
use std::io::{self, Write};

pub(super) fn write(out: &mut impl Write, bitmap: &Bitmap) -> io::Result<()> {
    let mut picture = Vec::new();
    png::write(&mut picture, bitmap)?;
    let text = BASE64_STANDARD.encode(&picture);
    let mut pieces = text.as_bytes().chunks(PIECE).peekable();
    // f=100: PNG, a=T: show it
    let mut keys = "a=T,f=100,";
    while let Some(piece) = pieces.next() {
        write!(out, "\x1b_G{keys}m={};", u8::from(pieces.peek().is_some()))?;
        out.write_all(piece)?;
        out.write_all(b"\x1b\\")?;
        keys = "";
    }
    out.write_all(b"\n")
}

/// Limit of the protocol for a piece.
const PIECE: usize = 4096;
