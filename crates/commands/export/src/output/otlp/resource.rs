//! What the metrics are about: the host, and what OTEL_RESOURCE_ATTRIBUTES says of it, as Kubernetes and containers do.

/// What is known of the host, and of the container that the exporter runs in.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostAttributes {
    pub(crate) host: Option<String>,
    pub(crate) host_id: Option<String>,
    pub(crate) container: Option<String>,
    pub(crate) pod: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) version: &'static str,
}

/// Returns the attributes of the host; those in `extra`, `KEY=VALUE,...`, replace others.
///
/// # Errors
/// What is wrong with `extra`.
pub(crate) fn resource(known: &HostAttributes, extra: &str) -> Result<Vec<(String, String)>, String> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let own = [
        ("host.name", known.host.as_deref()),
        ("host.id", known.host_id.as_deref()),
        ("host.arch", Some(arch)),
        ("os.type", Some("linux")),
        ("container.id", known.container.as_deref()),
        ("k8s.pod.uid", known.pod.as_deref()),
        ("k8s.namespace.name", known.namespace.as_deref()),
        ("service.name", Some("sockeye")),
        ("service.version", Some(known.version)),
    ];
    let mut attributes: Vec<(String, String)> = own
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect();
    for pair in extra.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("no '=' in {pair:?}"))?;
        let (key, value) = (key.trim(), percent_decoded(value.trim()));
        attributes.retain(|(own, _)| own != key);
        attributes.push((key.to_owned(), value));
    }
    Ok(attributes)
}

/// Decodes `%2C` and the like; what is none stays.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = after
            .get(..2)
            .filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let decoded = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_adds_and_replaces_attributes() {
        let extra = "k8s.pod.name=a%2Cb, host.name = node1,";
        let known = HostAttributes {
            host: Some("db1".to_owned()),
            version: "1.2.3",
            ..HostAttributes::default()
        };
        let found = resource(&known, extra).unwrap();
        let value = |key: &str| {
            found
                .iter()
                .find(|(own, _)| own == key)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(value("k8s.pod.name"), Some("a,b"));
        assert_eq!(value("host.name"), Some("node1"));
        assert_eq!(value("service.version"), Some("1.2.3"));
        assert_eq!(value("host.id"), None);
        assert_eq!(value("container.id"), None);
        assert!(resource(&HostAttributes::default(), "novalue").is_err());
    }

    #[test]
    fn what_is_no_escape_stays() {
        for (text, expected) in [("100%", "100%"), ("%zz%4", "%zz%4"), ("%41%+1", "A%+1"), ("", "")] {
            assert_eq!(percent_decoded(text), expected, "{text}");
        }
    }
}
