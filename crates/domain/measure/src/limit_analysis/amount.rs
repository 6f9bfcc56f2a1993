//! Formats amounts for sentences.

pub(super) fn or_unknown(value: Option<u64>, show: impl Fn(u64) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

pub(super) fn percent(permille: f64) -> String {
    if permille < 10.0 && permille > 0.0 {
        format!("{:.2} %", permille / 10.0)
    } else {
        format!("{:.0} %", permille / 10.0)
    }
}

pub(super) fn bits(bytes_per_s: f64) -> String {
    let mut rate = bytes_per_s * 8.0;
    for unit in ["bit/s", "kbit/s", "Mbit/s"] {
        if rate < 1000.0 {
            return format!("{rate:.0} {unit}");
        }
        rate /= 1000.0;
    }
    format!("{rate:.1} Gbit/s")
}

pub(super) fn bytes(count: u64) -> String {
    match count {
        0..10_240 => format!("{count} bytes"),
        10_240..10_485_760 => format!("{} KiB", count >> 10),
        _ => format!("{} MiB", count >> 20),
    }
}

pub(super) fn time(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}
