//! Answers and their headers, and the fields of requests. `sockeye_http` has connections and their limits.

pub(crate) mod answer;
pub(crate) mod query;
