//! What the environment says, with the names that OpenTelemetry has given it.

use crate::output::otlp::{percent_decoded, resource};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sockeye_console::envelope;
use sockeye_console::usage::UsageError;
use std::env;

/// Returns the attributes of the host.
pub(super) fn attributes() -> Result<Vec<(String, String)>, UsageError> {
    let origin = envelope::now().origin;
    let id = std::fs::read_to_string("/etc/machine-id").ok();
    let id = id.as_deref().map(str::trim).filter(|id| !id.is_empty());
    let extra = env::var(ATTRIBUTES).unwrap_or_default();
    resource(origin.host.as_deref(), id, origin.version, &extra).map_err(|error| wrong(ATTRIBUTES, &error))
}

/// Returns the headers of a request.
pub(super) fn headers() -> Result<HeaderMap, UsageError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    let text = env::var(HEADERS).unwrap_or_default();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        // The value may be a secret: it is not shown.
        let header = pair.split_once('=').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            Some((name, HeaderValue::from_str(&percent_decoded(value.trim())).ok()?))
        });
        let (name, mut value) = header.ok_or_else(|| wrong(HEADERS, "expected NAME=VALUE,..."))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn wrong(variable: &str, error: &str) -> UsageError {
    UsageError(format!("sockeye: {variable}: {error}\n"))
}

const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
