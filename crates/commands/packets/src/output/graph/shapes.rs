//! Paints, signs and shapes of segments, marks and lines.

use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Shape, Sign};
use sockeye_trace::{Flag, Flags, MarkKind, SegmentPoint};

/// Returns the paint of a segment.
pub(super) const fn paint_of(flags: Flags) -> Paint {
    if flags.has(Flag::SpuriousRetransmission) {
        Paint::Spurious
    } else if flags.has(Flag::FastRetransmission) || flags.has(Flag::Retransmission) {
        Paint::Retransmitted
    } else if flags.has(Flag::OutOfOrder) {
        Paint::Reordered
    } else if flags.has(Flag::ZeroWindowProbe) || flags.has(Flag::KeepAlive) {
        Paint::Probe
    } else {
        Paint::Data
    }
}

/// Returns whether the flags of a segment are those of a retransmission.
pub(super) const fn is_repeated(segment: &SegmentPoint) -> bool {
    matches!(paint_of(segment.flags), Paint::Spurious | Paint::Retransmitted)
}

/// Returns the paint and the sign of a mark.
pub(super) const fn sign_of(kind: MarkKind) -> (Paint, Sign) {
    match kind {
        MarkKind::Syn => (Paint::Sign, Sign::Letter("SYN")),
        MarkKind::Fin => (Paint::Sign, Sign::Letter("FIN")),
        MarkKind::Reset => (Paint::Retransmitted, Sign::Letter("RST")),
        MarkKind::Urgent => (Paint::Sign, Sign::Letter("U")),
        MarkKind::Sack => (Paint::Sack, Sign::Bar),
        MarkKind::ZeroWindow => (Paint::Window, Sign::Letter("Z")),
        MarkKind::CongestionExperienced => (Paint::Reordered, Sign::Letter("CE")),
    }
}

/// Returns a stepped line.
pub(super) const fn line_of(paint: Paint, points: Vec<[f32; 2]>) -> Shape {
    Shape::Line {
        paint,
        width: 1.2,
        stairs: true,
        points,
    }
}

/// Returns vertical strokes.
pub(super) const fn strokes_of(paint: Paint, width: f32, strokes: Vec<[f32; 3]>) -> Shape {
    Shape::Strokes {
        paint,
        width,
        strokes,
    }
}

/// Number of points below which they are drawn larger.
pub(super) const FEW: usize = 400;
