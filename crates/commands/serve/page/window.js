// Which time the timeline shows. Times are in microseconds since 1970.

/** Names of ranges, with their lengths; all: everything that is kept. */
export const RANGES = { "15m": 900e6, "1h": 3600e6, "6h": 6 * 3600e6, "1d": 86400e6, "7d": 7 * 86400e6, all: undefined };

/**
 * Returns begin and end of what is shown. `at`: the moment that all views show, undefined for now; `first`: the first sample that is
 * kept; `before`: what was shown until now, which stays as long as the moment is in it.
 */
export function shown({ range, at, now, first, before }) {
  const length = RANGES[range] ?? Math.max(now - (first ?? now), RANGES["15m"]);
  const fits = before?.range === range && before.from <= at && at <= before.until;
  if (at !== undefined && fits) return before;
  const until = at === undefined || at >= now - length ? now : Math.round(at + length / 2);
  return { range, from: Math.max(0, Math.round(until - length)), until };
}
