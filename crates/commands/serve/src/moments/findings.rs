//! What `check` found at one time.

use serde_json::Value;

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    /// When it began, in microseconds since 1970.
    pub(crate) time_us: u64,
    /// Its document: `docs/schema/check.schema.json`.
    pub(crate) document: Vec<u8>,
    /// Number of its findings.
    pub(crate) findings: u64,
    /// The severity of the worst finding; `None` without findings.
    pub(crate) worst: Option<String>,
}

/// When a check was made, and how bad it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckMark {
    /// When it began, in microseconds since 1970.
    pub(crate) time_us: u64,
    /// Number of its findings.
    pub(crate) findings: u64,
    /// The severity of the worst finding; `None` without findings.
    pub(crate) worst: Option<String>,
}

impl From<&Checked> for CheckMark {
    fn from(checked: &Checked) -> Self {
        Self {
            time_us: checked.time_us,
            findings: checked.findings,
            worst: checked.worst.clone(),
        }
    }
}

impl Checked {
    /// Reads a document of `check`; `None`: it is none.
    pub(crate) fn parse(time_us: u64, document: Vec<u8>) -> Option<Self> {
        let value: Value = serde_json::from_slice(&document).ok()?;
        let findings = value.get("findings")?.as_array()?;
        // The worst is the first.
        let worst = findings
            .first()
            .and_then(|finding| finding.get("severity")?.as_str());
        Some(Self {
            time_us,
            findings: findings.len() as u64,
            worst: worst.map(str::to_owned),
            document,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Checked;

    #[test]
    fn worst_finding_is_the_first() {
        let text = br#"{"type":"check","findings":[{"severity":"warning"},{"severity":"notice"}]}"#;
        let checked = Checked::parse(7, text.to_vec()).unwrap();
        assert_eq!((checked.findings, checked.worst.as_deref()), (2, Some("warning")));
        let nothing = Checked::parse(7, br#"{"findings":[]}"#.to_vec()).unwrap();
        assert_eq!((nothing.findings, nothing.worst), (0, None));
        for bad in ["", "{}", "[]", r#"{"findings":7}"#] {
            assert!(Checked::parse(7, bad.as_bytes().to_vec()).is_none(), "{bad}");
        }
    }
}
