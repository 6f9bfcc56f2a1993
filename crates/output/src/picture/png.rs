//! A PNG writer (RFC 2083): eight bits per colour, one image chunk.
//!
//! Written here although the crate `png` exists: it adds four packages and a second `miniz_oxide`, to read pictures of every kind,
//! which is not needed here. `miniz_oxide` does the compression.

use super::raster::Bitmap;
use std::io::{self, Write};

/// Writes a bitmap as a PNG file.
pub fn write(out: &mut impl Write, bitmap: &Bitmap) -> io::Result<()> {
    out.write_all(b"\x89PNG\r\n\x1a\n")?;
    let mut head = Vec::with_capacity(13);
    for side in [bitmap.width, bitmap.height] {
        head.extend_from_slice(&u32::try_from(side).unwrap_or(u32::MAX).to_be_bytes());
    }
    // Eight bits, RGB, deflate, filters of method 0, not interlaced
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    write_chunk(out, *b"IHDR", &head)?;
    write_chunk(
        out,
        *b"IDAT",
        &miniz_oxide::deflate::compress_to_vec_zlib(&filtered(bitmap), 6),
    )?;
    write_chunk(out, *b"IEND", &[])
}

/// Returns rows as differences from the row above (filter `Up`): vertical lines become zeros.
fn filtered(bitmap: &Bitmap) -> Vec<u8> {
    const UP: u8 = 2;
    let len = (bitmap.width * 3).max(1);
    let mut rows = Vec::with_capacity(bitmap.pixels.len() + bitmap.height);
    let mut above = vec![0; len];
    for row in bitmap.pixels.chunks_exact(len) {
        rows.push(UP);
        rows.extend(
            row.iter()
                .zip(&above)
                .map(|(byte, above)| byte.wrapping_sub(*above)),
        );
        above.copy_from_slice(row);
    }
    rows
}

fn write_chunk(out: &mut impl Write, kind: [u8; 4], data: &[u8]) -> io::Result<()> {
    out.write_all(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes())?;
    out.write_all(&kind)?;
    out.write_all(data)?;
    out.write_all(&crc([&kind, data]).to_be_bytes())
}

/// Returns the CRC-32 of RFC 2083 (ISO 3309).
fn crc(parts: [&[u8]; 2]) -> u32 {
    !parts.into_iter().flatten().fold(u32::MAX, |crc, byte| {
        let at = (crc ^ u32::from(*byte)) & 0xff;
        TABLE[at as usize] ^ (crc >> 8)
    })
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut number = 0;
    while number < 256 {
        let mut rest = number as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 {
                0xedb8_8320 ^ (rest >> 1)
            } else {
                rest >> 1
            };
            bit += 1;
        }
        table[number] = rest;
        number += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_equals_reference() {
        assert_eq!(crc([b"12345", b"6789"]), 0xcbf4_3926);
        assert_eq!(crc([b"IEND", b""]), 0xae42_6082);
    }
}
