//! Parsers of option values of listings.

use sockeye_model::ProtocolSet;

/// Parses the list of protocols of `-A`.
pub fn protocols(list: &str) -> Result<ProtocolSet, String> {
    list.split(',').try_fold(ProtocolSet::EMPTY, |all, name| {
        let found = ProtocolSet::from_name(name.trim()).ok_or_else(|| {
            let known: Vec<_> = ProtocolSet::NAMES.iter().map(|(known, _)| *known).collect();
            format!("no protocol {name:?}; there are {}", known.join(", "))
        })?;
        Ok(all.or(found))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Protocol;

    #[test]
    fn unknown_protocol_is_named_in_the_error() {
        let both = ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]);
        assert_eq!(protocols("tcp,udp"), Ok(both));
        assert!(protocols("tcp,sctp").unwrap_err().contains("\"sctp\""));
        assert!(protocols("").is_err());
    }
}
