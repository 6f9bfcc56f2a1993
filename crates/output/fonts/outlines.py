#!/usr/bin/env python3
"""Writes the letters of a font as outlines that need no reader of font files: outlines.py FONT.ttf FONT.outlines UNICODES

All numbers are little-endian. u16 units of an em, u16 number of letters; for each letter, in ascending order of characters, the first
of which is 0 (the box for what is missing): u32 character, u16 advance, i16 x_min, y_min, x_max, y_max, u32 offset of its outline in
what follows. An outline is a sequence of steps: u8 kind, i16 coordinates (x, y). Kinds: 0 end, 1 move to, 2 line to, 3 quadratic curve
(control, end), 4 close.
"""

import struct
import sys

from fontTools.pens.basePen import BasePen, decomposeQuadraticSegment
from fontTools.ttLib import TTFont


class Steps(BasePen):
    """Collects the steps of an outline."""

    def __init__(self, glyphs):
        super().__init__(glyphs)
        self.out = bytearray()

    def step(self, kind, *points):
        self.out.append(kind)
        for x, y in points:
            self.out += struct.pack("<hh", round(x), round(y))

    def _moveTo(self, point):
        self.step(1, point)

    def _lineTo(self, point):
        self.step(2, point)

    def _qCurveToOne(self, control, end):
        self.step(3, control, end)

    def _closePath(self):
        self.step(4)


def characters(ranges):
    for part in ranges.split(","):
        first, _, last = part.removeprefix("U+").partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


def main(source, target, ranges):
    font = TTFont(source)
    glyphs, names = font.getGlyphSet(), font.getBestCmap()
    chosen = [(0, ".notdef")] + [(code, names[code]) for code in sorted(set(characters(ranges))) if code in names]
    table, outlines, places = bytearray(), bytearray(), {}
    for code, name in chosen:
        pen = Steps(glyphs)
        glyphs[name].draw(pen)
        steps = bytes(pen.out + b"\0")
        if steps not in places:
            places[steps] = len(outlines)
            outlines += steps
        glyph = font["glyf"][name]
        bounds = [getattr(glyph, name, 0) for name in ("xMin", "yMin", "xMax", "yMax")]
        table += struct.pack("<IHhhhhI", code, font["hmtx"][name][0], *bounds, places[steps])
    with open(target, "wb") as file:
        file.write(struct.pack("<HH", font["head"].unitsPerEm, len(chosen)) + table + outlines)


main(*sys.argv[1:])
