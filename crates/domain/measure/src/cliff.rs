//! Cliffs: sizes at which a rate falls.

use crate::Repeats;

/// Rates of one function by one method, in ascending order of sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// `memset`
    pub function: &'static str,
    /// `libc`
    pub method: &'static str,
    /// The points.
    pub points: Vec<Point>,
}

/// The rates at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Bytes that one call sets or copies.
    pub bytes: u64,
    /// Bytes per second, one value per measurement.
    pub rates: Repeats,
}

/// A drop of the rate by more than 30 % that lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fall {
    /// The last size before the drop.
    pub last_bytes: u64,
    /// The first size after the drop.
    pub first_bytes: u64,
    /// Bytes per second on the plateau before.
    pub before: f64,
    /// Bytes per second within the octave after.
    pub after: f64,
    /// Whether the drop is within an octave: a cliff. Otherwise it is a slope.
    pub is_cliff: bool,
}

impl Fall {
    /// The loss in thousandths of the rate before.
    #[must_use]
    pub fn lost_permille(&self) -> f64 {
        (1.0 - self.after / self.before) * 1000.0
    }
}

/// A processor cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// `L1d`, `L2`
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Curve {
    /// All drops of the rate, by ascending size. A single outlier is no drop, nor are two sizes with
    /// overlapping repeats.
    #[must_use]
    pub fn falls(&self) -> Vec<Fall> {
        let points: Vec<(u64, f64)> = self
            .points
            .iter()
            .filter_map(|point| Some((point.bytes, point.rates.median()?)))
            .collect();
        let smooth = smoothed(&points);
        let mut falls: Vec<Fall> = Vec::new();
        let mut start = 0;
        while let Some(fall) = first_fall(&smooth, start) {
            start = fall.down;
            let found = fall.to_fall(&smooth);
            if !self.is_clear(found.last_bytes, found.first_bytes) {
                continue;
            }
            match falls.last_mut() {
                // The same slope continues.
                Some(before)
                    if !before.is_cliff && !found.is_cliff && before.first_bytes == found.last_bytes =>
                {
                    (before.first_bytes, before.after) = (found.first_bytes, found.after);
                }
                // Further down at the end of a cliff.
                Some(before)
                    if before.is_cliff && found.last_bytes <= before.first_bytes.saturating_mul(2) =>
                {
                    before.after = found.after;
                }
                _ => falls.push(found),
            }
        }
        falls
    }

    /// Whether the rates on both sides do not overlap.
    fn is_clear(&self, last_bytes: u64, first_bytes: u64) -> bool {
        let range = |bytes: u64| {
            let point = self.points.iter().find(|point| point.bytes == bytes);
            // The middle half: one disturbed repeat does not make the others doubtful.
            point.and_then(|point| point.rates.middle())
        };
        match (range(last_bytes), range(first_bytes)) {
            (Some((low, _)), Some((_, high))) => low > high,
            _ => false,
        }
    }
}

/// The cache with a size near a drop, if any; `streams`: number of memory areas that the function uses.
#[must_use]
pub fn ending_cache<'a>(fall: &Fall, streams: u64, caches: &'a [Cache]) -> Option<&'a Cache> {
    let low = fall.last_bytes.saturating_mul(streams);
    let high = fall.first_bytes.saturating_mul(streams);
    let largest = caches.iter().map(|cache| cache.bytes).max();
    caches
        .iter()
        .filter(|cache| {
            // The last cache is shared with other processors and guests: a part of its nominal size is
            // available.
            let room = if Some(cache.bytes) == largest { 4 } else { 3 };
            low <= cache.bytes.saturating_mul(3) / 2 && cache.bytes <= high.saturating_mul(room) / 2
        })
        .min_by_key(|cache| cache.bytes.abs_diff(low.midpoint(high)))
}

/// A drop, by indices of points.
#[derive(Debug, Clone, Copy)]
struct FallIndices {
    /// The last point of the plateau.
    last: usize,
    /// The first point after the drop.
    down: usize,
    before: f64,
    is_cliff: bool,
}

impl FallIndices {
    fn to_fall(self, points: &[(u64, f64)]) -> Fall {
        let end = points[self.down].0.saturating_mul(2);
        let after: Repeats = points[self.down..]
            .iter()
            .take_while(|(bytes, _)| *bytes <= end)
            .map(|(_, rate)| *rate)
            .collect();
        Fall {
            last_bytes: points[self.last].0,
            first_bytes: points[self.down].0,
            before: self.before,
            after: after.median().unwrap_or_default(),
            is_cliff: self.is_cliff,
        }
    }
}

/// The next drop from index `start` on. The plateau before a point is the median of the octave that ends
/// there.
fn first_fall(points: &[(u64, f64)], start: usize) -> Option<FallIndices> {
    // The highest plateau since the last drop: the start of a slope.
    let mut highest: Option<(usize, f64)> = None;
    for place in start..points.len() {
        let before = plateau(points, start, place);
        let steep = (place + 1..points.len())
            // The next size always counts, further ones only within an octave.
            .take_while(|&next| next == place + 1 || points[next].0 <= points[place].0.saturating_mul(2))
            .find(|&next| is_down(points, next, before));
        if let Some(down) = steep {
            // Sizes in between that are still high belong to the plateau.
            let last = (place..down)
                .rev()
                .find(|&at| points[at].1 >= before * PLATEAU_PART)
                .unwrap_or(place);
            return Some(FallIndices {
                last,
                down,
                before,
                is_cliff: true,
            });
        }
        if highest.is_none_or(|(_, rate)| before >= rate) {
            highest = Some((place, before));
        }
        let (top, rate) = highest?;
        if is_down(points, place, rate) {
            return Some(FallIndices {
                last: top,
                down: place,
                before: rate,
                is_cliff: false,
            });
        }
    }
    None
}

/// The median of the octave that ends at `place`.
fn plateau(points: &[(u64, f64)], start: usize, place: usize) -> f64 {
    let from = points[place].0 / 2;
    let octave: Repeats = points[start..=place]
        .iter()
        .filter(|(bytes, _)| *bytes > from)
        .map(|(_, rate)| *rate)
        .collect();
    octave.median().unwrap_or_default()
}

/// Whether the rate at `place` is 30 % below `before` and stays below for the next two octaves.
fn is_down(points: &[(u64, f64)], place: usize, before: f64) -> bool {
    let until = points[place].0.saturating_mul(4);
    points[place].1 < before * DROPPED_PART
        && points[place..]
            .iter()
            .take_while(|(bytes, _)| *bytes <= until)
            .all(|(_, rate)| *rate < before * RECOVERED_PART)
}

/// Replaces each point by the median of itself and its neighbours: single outliers disappear, steps keep
/// their place. Points at the ends, and with neighbours more than an octave away, are kept.
fn smoothed(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let of = |place: usize| {
        let (bytes, rate) = points[place];
        let around = place
            .checked_sub(1)
            .and_then(|left| points.get(left))
            .zip(points.get(place + 1));
        match around {
            Some((left, right)) if right.0 <= left.0.saturating_mul(2) => {
                let three: Repeats = [left.1, rate, right.1].into_iter().collect();
                (bytes, three.median().unwrap_or(rate))
            }
            _ => (bytes, rate),
        }
    };
    (0..points.len()).map(of).collect()
}

/// A drop goes below this part of the plateau.
const DROPPED_PART: f64 = 0.7;
/// Above this part of the plateau, the rate has recovered.
const RECOVERED_PART: f64 = 0.8;
/// Above this part, a point belongs to the plateau.
const PLATEAU_PART: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;

    /// Four sizes per octave from 64 bytes to 64 MiB.
    fn sizes() -> Vec<u64> {
        (0..=80)
            .map(|step| (64.0 * 2_f64.powf(f64::from(step) / 4.0)).round() as u64)
            .collect()
    }

    fn curve(sizes: &[u64], rate: impl Fn(usize, u64) -> f64) -> Curve {
        let point = |(place, &bytes): (usize, &u64)| Point {
            bytes,
            // Three repeats, the last one disturbed.
            rates: [1.0, 1.01, 0.6]
                .iter()
                .map(|factor| rate(place, bytes) * factor)
                .collect(),
        };
        Curve {
            function: "memset",
            method: "libc",
            points: sizes.iter().enumerate().map(point).collect(),
        }
    }

    /// Sawtooth noise of this amplitude in thousandths.
    fn noisy(place: usize, permille: f64) -> f64 {
        1.0 + ((place * 7919 % 13) as f64 / 6.0 - 1.0) * permille / 1000.0
    }

    #[test]
    fn cliff_at_118_kib_is_found() {
        let falls = curve(&sizes(), |place, bytes| {
            noisy(place, 80.0) * if bytes > 118 << 10 { 5e9 } else { 25e9 }
        })
        .falls();
        assert_eq!(falls.len(), 1, "{falls:?}");
        assert!(falls[0].is_cliff);
        assert!(
            falls[0].last_bytes <= 118 << 10 && falls[0].first_bytes > 118 << 10,
            "{falls:?}"
        );
        assert!((750.0..850.0).contains(&falls[0].lost_permille()), "{falls:?}");
    }

    #[test]
    fn noise_gives_no_fall() {
        for permille in [0.0, 50.0, 120.0] {
            let flat = curve(&sizes(), |place, _| noisy(place, permille) * 1e10);
            assert_eq!(flat.falls(), [], "{permille}");
        }
        // One size with all repeats slow, and the last but one of them.
        for outlier in [40, 79] {
            let dent = curve(&sizes(), |place, _| if place == outlier { 1e9 } else { 1e10 });
            assert_eq!(dent.falls(), [], "{outlier}");
        }
        // Low for an octave, then recovered.
        let trough = curve(
            &sizes(),
            |place, _| if (40..43).contains(&place) { 5e9 } else { 1e10 },
        );
        assert_eq!(trough.falls(), []);
        assert_eq!(curve(&[], |_, _| 1e10).falls(), []);
        assert_eq!(curve(&[64], |_, _| 1e10).falls(), []);
    }

    #[test]
    fn growing_rate_gives_no_fall() {
        let growing = curve(&sizes(), |_, bytes| 1e10 * bytes as f64 / (bytes as f64 + 500.0));
        assert_eq!(growing.falls(), []);
    }

    #[test]
    fn slope_is_no_cliff() {
        // From 100 to 33 in ten octaves.
        let slope = curve(&sizes(), |place, _| 1e10 * 0.98_f64.powi(place as i32));
        let falls = slope.falls();
        assert_eq!(falls.len(), 1, "{falls:?}");
        assert!(!falls[0].is_cliff && falls[0].first_bytes >= 8 << 20, "{falls:?}");
    }

    #[test]
    fn two_cliffs_and_a_rounded_one_are_found() {
        let falls = curve(&sizes(), |_, bytes| match bytes {
            0..=49152 => 8e10,
            49153..=1048576 => 4e10,
            _ => 1e10,
        })
        .falls();
        assert_eq!(
            falls.iter().map(|fall| fall.is_cliff).collect::<Vec<_>>(),
            [true, true],
            "{falls:?}"
        );
        assert_eq!(falls[1].last_bytes, 1 << 20);
        // Two steps, less than an octave apart.
        let steps = curve(&sizes(), |place, _| match place {
            0..=40 => 8e10,
            41..=43 => 4e10,
            _ => 1e10,
        });
        let falls = steps.falls();
        assert_eq!(falls.len(), 1, "{falls:?}");
        assert_eq!(
            (falls[0].last_bytes, falls[0].after),
            (steps.points[40].bytes, 1e10)
        );
        // At the end of a cache, the rate falls over two or three sizes.
        let rounded = curve(&sizes(), |place, _| match place {
            0..=38 => 8e10,
            39 => 7e10,
            40 => 5.9e10,
            41 => 4.2e10,
            _ => 4e10,
        });
        let falls = rounded.falls();
        assert_eq!(falls.len(), 1, "{falls:?}");
        assert!(
            falls[0].is_cliff && falls[0].last_bytes == rounded.points[39].bytes,
            "{falls:?}"
        );
    }

    #[test]
    fn sparse_sizes_are_compared() {
        let falls = curve(&[1 << 10, 64 << 10, 1 << 20], |place, _| [1e10, 1e10, 2e9][place]).falls();
        assert_eq!((falls[0].last_bytes, falls[0].first_bytes), (64 << 10, 1 << 20));
        let unsure = Curve {
            points: vec![
                Point {
                    bytes: 64,
                    rates: [1e10, 2e9, 1.1e10, 2.1e9].into_iter().collect(),
                },
                Point {
                    bytes: 4096,
                    rates: [4e9, 2e9, 9e9, 3e9].into_iter().collect(),
                },
            ],
            ..curve(&[], |_, _| 0.0)
        };
        assert_eq!(unsure.falls(), []);
    }

    #[test]
    fn ending_cache_is_near_the_fall() {
        let caches = [("L1d", 48 << 10), ("L2", 1 << 20), ("L3", 32 << 20)].map(|(name, bytes)| Cache {
            name: name.to_owned(),
            bytes,
        });
        let at = |last_bytes, first_bytes| Fall {
            last_bytes,
            first_bytes,
            before: 2.0,
            after: 1.0,
            is_cliff: true,
        };
        let name = |fall: Fall, streams| ending_cache(&fall, streams, &caches).map(|cache| &*cache.name);
        assert_eq!(name(at(46341, 55109), 1), Some("L1d"));
        assert_eq!(name(at(23170, 27554), 2), Some("L1d"));
        assert_eq!(name(at(110218, 131072), 1), None);
        assert_eq!(name(at(1 << 20, 1246974), 1), Some("L2"));
        assert_eq!(name(at(16 << 20, 19 << 20), 1), Some("L3"));
        assert_eq!(name(at(u64::MAX / 2, u64::MAX), 2), None);
    }
}
