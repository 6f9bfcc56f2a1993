//! Flows that NAT translates: those whose connections a host sends one by one.

use super::{Answer, Question, between};
use crate::row_binary::{RowError, RowReader};
use std::net::IpAddr;

/// A flow that NAT translates, as one of its ends has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslatedFlow {
    /// The end that connected.
    pub client: IpAddr,
    /// The end that listens.
    pub server: IpAddr,
    /// The port that it listens on.
    pub port: u16,
}

/// Asks for the flows that were translated at about a time, in seconds since 1970; of very many some.
#[must_use]
pub fn translated_flows(at_s: u64) -> Question {
    let sql = format!(
        "SELECT DISTINCT end.1 AS client, end.2 AS server, end.3 AS port
FROM translations AS n
ARRAY JOIN [(n.original_client, n.original_server, n.original_port), (n.client, n.server, n.port)] AS end
WHERE n.t >= fromUnixTimestamp({{since:UInt32}}) AND n.t < fromUnixTimestamp({{until:UInt32}})
ORDER BY client, server, port LIMIT {FLOWS_MAX}"
    );
    Question {
        sql,
        parameters: between(at_s.saturating_sub(AROUND_S), at_s + AROUND_S),
    }
}

impl Answer for TranslatedFlow {
    fn read(reader: &mut RowReader<'_>) -> Result<Self, RowError> {
        Ok(Self {
            client: reader.ip()?,
            server: reader.ip()?,
            port: reader.u16()?,
        })
    }
}

/// Recorders write all translations every five minutes.
const AROUND_S: u64 = 900;

/// A host has them in memory, 40 bytes each.
const FLOWS_MAX: u32 = 100_000;
