//! Names and colours of states.

use crate::number::{push_decimal, push_short};
use crate::table::Tint;
use sockeye_model::State;

/// Appends the name of a state; one without a name as its number.
#[inline]
pub fn push_state(out: &mut Vec<u8>, state: State) {
    push_short(out, state.short_name().as_bytes());
    if let State::Unknown(number) = state {
        push_unknown(out, number);
    }
}

/// Returns the colour of a state.
#[inline]
pub const fn tint(state: State) -> Tint {
    match state {
        State::Established => Tint::Green,
        State::Listen => Tint::Blue,
        State::TimeWait | State::Close | State::BoundInactive => Tint::Dim,
        State::Unknown(_) => Tint::None,
        _ => Tint::Yellow,
    }
}

/// Appends a number without a name: `(10)`.
pub fn push_unknown(out: &mut Vec<u8>, number: u8) {
    out.push(b'(');
    push_decimal(out, number.into());
    out.push(b')');
}
