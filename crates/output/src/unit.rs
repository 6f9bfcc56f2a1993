//! Units of kernel fields, which the suffixes of their names give, and their text in tables.

use crate::number::{
    push_bit_rate, push_byte_rate, push_decimal, push_hexadecimal, push_human, push_ms, push_short,
    push_time_us,
};
use sockeye_model::CaState;

/// The unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// No unit: a plain number.
    None,
    /// A state of congestion control (`tcpi_ca_state`).
    CaState,
    /// Bytes.
    Bytes,
    /// Bytes of a packet or segment, always exact: 1448 and 1460 are different answers.
    ExactBytes,
    /// Bytes per second, shown as bits per second; `u64::MAX` is unlimited.
    BytesPerSecond,
    /// Bytes per second, shown as such.
    ByteRate,
    /// A round-trip time in microseconds, always shown in milliseconds, so that rows compare at a glance.
    RoundTripUs,
    /// Nanoseconds, shown in few digits.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// A large count, shown with a decimal prefix: `1.2M`.
    Count,
    /// A bit mask or an identifier, shown in hexadecimal.
    Hexadecimal,
    /// As [`Unit::Hexadecimal`], but 0 is shown as absent: nearly all sockets have no mark.
    Mark,
}

impl Unit {
    /// Returns the unit of the field with this name.
    pub fn of(name: &str) -> Self {
        match name {
            "ca_state" => Self::CaState,
            _ if name.ends_with("_bytes_per_s") => Self::BytesPerSecond,
            _ if name.ends_with("mss_bytes") || name.ends_with("mtu_bytes") => Self::ExactBytes,
            _ if name.ends_with("_bytes") || name.starts_with("bytes_") => Self::Bytes,
            _ if name.ends_with("rtt_us") || name.ends_with("rttvar_us") => Self::RoundTripUs,
            _ if name.ends_with("_ns") => Self::Ns,
            _ if name.ends_with("_us") => Self::Us,
            _ if name.ends_with("_ms") => Self::Ms,
            _ => Self::None,
        }
    }

    /// Appends `value` as tables show it.
    pub fn push(self, out: &mut Vec<u8>, value: u64) {
        match self {
            Self::None => push_decimal(out, value),
            Self::CaState => push_ca_state(out, value),
            Self::Bytes => {
                push_human(out, value.into());
                out.push(b'B');
            }
            Self::ExactBytes => {
                push_decimal(out, value);
                out.push(b'B');
            }
            Self::ByteRate => push_byte_rate(out, value as f64),
            Self::BytesPerSecond if value == u64::MAX => out.extend_from_slice(b"unlimited"),
            Self::BytesPerSecond => push_bit_rate(out, value),
            Self::RoundTripUs if value < 60_000_000 => {
                push_ms(out, value);
                out.extend_from_slice(b"ms");
            }
            Self::Ns => out.extend_from_slice(sockeye_measure::duration(value).as_bytes()),
            Self::RoundTripUs | Self::Us => push_time_us(out, value),
            Self::Ms => push_time_us(out, value.saturating_mul(1000)),
            Self::Seconds => push_time_us(out, value.saturating_mul(1_000_000)),
            Self::Count => push_human(out, value.into()),
            Self::Mark if value == 0 => {}
            Self::Hexadecimal | Self::Mark => push_hexadecimal(out, value),
        }
    }
}

/// Appends the name of a state of congestion control; one without a name as its number.
pub fn push_ca_state(out: &mut Vec<u8>, number: u64) {
    let name = u8::try_from(number)
        .ok()
        .and_then(|number| CaState::from_number(number).name());
    if let Some(name) = name {
        push_short(out, name.as_bytes());
    } else {
        out.extend_from_slice(b"unknown(");
        push_decimal(out, number);
        out.push(b')');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: u64, expected: &str) {
        let mut out = Vec::new();
        Unit::of(name).push(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{name}");
    }

    #[test]
    fn sizes_of_packets_are_exact() {
        for name in ["snd_mss_bytes", "rcv_mss_bytes", "advmss_bytes", "pmtu_bytes"] {
            check(name, 65_483, "65483B");
            check(name, 1_448, "1448B");
        }
        check("bytes_acked", 65_483, "65.5KB");
    }

    #[test]
    fn nanoseconds_have_few_digits() {
        check("median_ns", 12_345, "12.3us");
    }
}
