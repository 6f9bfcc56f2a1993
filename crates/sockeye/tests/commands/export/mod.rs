//! `export`: metrics of known traffic, and the monitoring systems that read them.

mod collector;
mod exporter;
mod grpc;
mod otlp;
mod prometheus;
mod serving;
mod textfile;
mod tls;
mod traffic;
mod units;
