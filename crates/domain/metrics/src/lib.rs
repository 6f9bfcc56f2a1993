//! What monitoring systems collect of a host: totals that only grow, and values of the last sample, by service.
//!
//! - [`HostSample`]: one sample, filled socket by socket
//! - [`HostMetrics`]: the samples so far
//! - [`FAMILIES`]: every metric with its name, unit, labels and value; all formats are written from this table
//! - [`Service`], [`Services`]: names of services, and a bound for their number
//! - [`Histogram`]: round trip times
//!
//! What it deliberately does not do: read the host, or write a format. No label has an address, a pid or an ephemeral port.

mod counted;
mod exporter;
mod families;
mod family;
mod histogram;
mod host_metrics;
mod host_sample;
mod service;
mod service_metrics;
mod services;

pub use counted::Counted;
pub use exporter::{ExporterHealth, RecorderHealth, Source};
pub use families::FAMILIES;
pub use family::{Family, Kind, Labels, Unit, Value, VisitValue};
pub use histogram::Histogram;
pub use host_metrics::{FindingCount, HostMetrics};
pub use host_sample::HostSample;
pub use service::{Service, ServiceNames};
pub use service_metrics::{ListenerQueues, ServiceMetrics, ServiceSample};
pub use services::Services;
