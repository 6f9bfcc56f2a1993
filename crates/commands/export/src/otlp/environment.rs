//! What the environment says, with the names that OpenTelemetry has given it.

use super::args::{OtlpArgs, Protocol};
use crate::output::otlp::{HostAttributes, percent_decoded, resource};
use anyhow::Context;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sockeye_console::envelope;
use sockeye_console::tls_args::TlsArgs;
use sockeye_console::usage::UsageError;
use sockeye_http::Target;
use sockeye_model::Pid;
use sockeye_output::text::harmless;
use sockeye_source::names::process_container;
use std::env;
use std::path::{Path, PathBuf};

/// Returns the attributes of the host.
pub(super) fn attributes() -> Result<Vec<(String, String)>, UsageError> {
    let origin = envelope::now().origin;
    let found = process_container(Pid(std::process::id()));
    // Other containers than those with an id have a name that is no `container.id`.
    let container = found.map(|found| harmless(found.container.name()));
    let known = HostAttributes {
        host: origin.host.clone(),
        host_id: first_line("/etc/machine-id"),
        container: container.filter(|name| name.len() == 64),
        pod: found.and_then(|found| Some(harmless(found.pod?.as_bytes()))),
        namespace: first_line(SERVICE_ACCOUNT_NAMESPACE),
        version: origin.version,
    };
    let extra = env::var(ATTRIBUTES).unwrap_or_default();
    resource(&known, &extra).map_err(|error| wrong(ATTRIBUTES, &error))
}

/// Returns how the collector is spoken to.
pub(super) fn protocol(args: &OtlpArgs) -> Result<Protocol, UsageError> {
    let named = env::var(PROTOCOL).unwrap_or_default();
    match (args.protocol, named.as_str()) {
        (Some(protocol), _) => Ok(protocol),
        (None, "grpc") => Ok(Protocol::Grpc),
        (None, "" | "http/protobuf") => Ok(Protocol::Http),
        (None, _) => Err(wrong(PROTOCOL, "expected grpc or http/protobuf")),
    }
}

/// Returns where the collector is.
pub(super) fn endpoint(args: &OtlpArgs, protocol: Protocol) -> Result<Target, UsageError> {
    if let Some(named) = &args.endpoint {
        return Ok(named.clone());
    }
    let named = env::var(ENDPOINT).ok().filter(|url| !url.is_empty());
    let default = match protocol {
        Protocol::Http => "http://127.0.0.1:4318",
        Protocol::Grpc => "http://127.0.0.1:4317",
    };
    let url = named.as_deref().unwrap_or(default);
    Target::parse(url).map_err(|error| wrong(ENDPOINT, &error))
}

/// Returns whom to trust, by options, else by the environment.
pub(super) fn tls(args: &TlsArgs, target: &Target) -> TlsArgs {
    let mut tls = args.clone();
    if target.is_tls() {
        let named = |variable| {
            env::var_os(variable)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        tls.tls_ca = tls.tls_ca.or_else(|| named(CERTIFICATE));
        if tls.tls_cert.is_none() {
            (tls.tls_cert, tls.tls_key) = (named(CLIENT_CERTIFICATE), named(CLIENT_KEY));
        }
    }
    tls
}

/// Returns the headers of a request.
pub(super) fn headers(file: Option<&Path>) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    let text = env::var(HEADERS).unwrap_or_default();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        // The value may be a secret: it is not shown.
        let added = pair
            .split_once('=')
            .and_then(|(name, value)| add(&mut headers, name, &percent_decoded(value.trim())));
        added.ok_or_else(|| wrong(HEADERS, "expected NAME=VALUE,..."))?;
    }
    if let Some(path) = file {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("--headers-file {}", path.display()))?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let added = line
                .split_once(':')
                .and_then(|(name, value)| add(&mut headers, name, value.trim()));
            added.ok_or_else(|| {
                let option = format!("--headers-file {}", path.display());
                wrong(&option, "expected NAME: VALUE on each line")
            })?;
        }
    }
    Ok(headers)
}

/// Adds a header whose value is not shown; `None`: it is none.
fn add(headers: &mut HeaderMap, name: &str, value: &str) -> Option<()> {
    let name: HeaderName = name.trim().parse().ok()?;
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Some(())
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

fn wrong(variable: &str, error: &str) -> UsageError {
    UsageError(format!("sockeye: {variable}: {error}\n"))
}

const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
const CLIENT_CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const CLIENT_KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

/// Where Kubernetes puts the name of the namespace of a pod.
const SERVICE_ACCOUNT_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
