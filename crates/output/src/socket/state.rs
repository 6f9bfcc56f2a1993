//! Names and colours of states.

use crate::number::{push_decimal, push_short};
use crate::table::Tint;
use sockeye_model::{CaState, State};
use std::io::Write;

/// Appends the name of a state of congestion control; one without a name as its number.
pub fn push_ca_state(out: &mut Vec<u8>, number: u64) {
    // Writing into a Vec cannot fail.
    let _ = match u8::try_from(number) {
        Ok(number) => write!(out, "{}", CaState::from_number(number)),
        Err(_) => write!(out, "{number}"),
    };
}

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
