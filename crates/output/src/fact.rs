//! Numbers that are evidence: their names end in their unit.

use crate::number::{push_human, push_time_us};
use crate::unit::Unit;

/// Appends a fact: `idle 2h3m`, `share 12.5%`, `waiting 129`.
pub fn push_fact(out: &mut Vec<u8>, name: &str, value: u64) {
    let unit = UNITS
        .iter()
        .find_map(|unit| Some((unit, name.strip_suffix(unit)?)));
    for byte in unit.map_or(name, |(_, name)| name).bytes() {
        out.push(if byte == b'_' { b' ' } else { byte });
    }
    out.push(b' ');
    match unit.map(|(unit, _)| *unit) {
        Some("_permille") => {
            let (whole, tenths) = (value / 10, value % 10);
            out.extend_from_slice(
                if tenths == 0 {
                    format!("{whole}%")
                } else {
                    format!("{whole}.{tenths}%")
                }
                .as_bytes(),
            );
        }
        Some("_mbit_per_s") => out.extend_from_slice(format!("{value} Mbit/s").as_bytes()),
        Some("_us") => push_time_us(out, value),
        Some(_) => Unit::of(name).push(out, value),
        None => push_human(out, value.into()),
    }
}

/// Suffixes of names that are units, longer ones first.
const UNITS: &[&str] = &["_bytes_per_s", "_mbit_per_s", "_permille", "_bytes", "_us", "_ms"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_is_formatted_by_the_unit_in_its_name() {
        let check = |name, value, expected: &str| {
            let mut out = Vec::new();
            push_fact(&mut out, name, value);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check("idle_ms", 7_380_000, "idle 2h3m");
        check("share_permille", 125, "share 12.5%");
        check("share_permille", 800, "share 80%");
        check("waiting", 129, "waiting 129");
        check("sendq_bytes", 1_200_000, "sendq 1.2MB");
        check("pacing_rate_bytes_per_s", 125_000, "pacing rate 1.0Mbit/s");
        check("speed_mbit_per_s", 100, "speed 100 Mbit/s");
    }
}
