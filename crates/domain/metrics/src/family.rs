//! A metric as monitoring systems know it: a name, help, and values with labels.

use crate::{Histogram, HostMetrics};
use std::fmt;

/// Labels of a value: names and texts.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// Visits the values of a metric.
pub(crate) type Visit = fn(&HostMetrics, &mut VisitValue<'_>);

/// What is called with each value and its labels.
pub type VisitValue<'a> = dyn FnMut(Labels<'_>, Value<'_>) + 'a;

/// A metric with all its values.
pub struct Family {
    /// Its name, which ends in its unit. That of a counter gets `_total` where a format has it.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub help: &'static str,
    /// What kind of values it has.
    pub kind: Kind,
    /// Their base unit; `None`: they count what the name says.
    pub unit: Option<Unit>,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Visits each value with its labels.
    pub(crate) visit: Visit,
}

/// What kind of values a metric has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They never go back while the exporter runs.
    Counter,
    /// They are those of the last sample.
    Gauge,
    /// They are distributions.
    Histogram,
}

/// A base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes
    Bytes,
    /// Seconds
    Seconds,
    /// Parts of a whole, 0 to 1
    Ratio,
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A number of something.
    Count(u64),
    /// An amount.
    Amount(f64),
    /// A distribution.
    Histogram(&'a Histogram),
}

impl Unit {
    /// Returns its name in names of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Seconds => "seconds",
            Self::Ratio => "ratio",
        }
    }
}

impl Family {
    /// Returns its name without the unit.
    #[must_use]
    pub fn base_name(&self) -> &'static str {
        let unit = self.unit.map_or("", Unit::name);
        let base = self.name.strip_suffix(unit);
        base.and_then(|base| base.strip_suffix('_')).unwrap_or(self.name)
    }

    /// Visits each value with its labels.
    pub fn values(&self, metrics: &HostMetrics, visit: &mut VisitValue<'_>) {
        (self.visit)(metrics, visit);
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
