//! Many hosts: what they sent to ClickHouse by `sockeye export clickhouse`. Only questions are sent there, by this server: the browser learns
//! neither the server nor who asks.

use crate::args::FleetArgs;
use crate::view::{FleetBy, FleetMap, fleet_map_of_edges, fleet_map_of_services};
use anyhow::Context;
use sockeye_clickhouse::Server;
use sockeye_console::server_args::read_password;
use sockeye_console::tls_args::TlsArgs;
use sockeye_fleet::Filter;
use sockeye_fleet::question::{self, Answer, Question, Selection, TimeRange};

/// The server that is asked.
pub(crate) struct Fleet(Server);

/// What is asked.
pub(crate) struct FleetQuestion {
    pub(crate) range: TimeRange,
    pub(crate) filter: Option<Filter>,
    pub(crate) by: FleetBy,
}

impl Fleet {
    /// Returns the server that options name; `None`: there is none. It is not connected to before it is asked.
    pub(crate) fn of(args: &FleetArgs) -> anyhow::Result<Option<Self>> {
        let Some(target) = args.fleet.clone() else {
            return Ok(None);
        };
        let tls = TlsArgs {
            tls_ca: args.fleet_tls_ca.clone(),
            tls_cert: args.fleet_tls_cert.clone(),
            tls_key: args.fleet_tls_key.clone(),
        };
        let tls = tls.client_of(&target, "--fleet-tls").context("--fleet")?;
        let password = args.fleet_password_file.as_deref().map(read_password);
        let password = password.transpose().context("--fleet-password-file")?;
        let server = Server::new(
            target,
            tls,
            &args.fleet_database,
            &args.fleet_user,
            password.as_deref(),
        );
        server.map(|server| Some(Self(server))).context("--fleet")
    }

    /// Returns who talks to whom.
    ///
    /// # Errors
    /// Why the server does not answer.
    pub(crate) fn map(&self, asked: FleetQuestion) -> Result<FleetMap, String> {
        let FleetQuestion { range, filter, by } = asked;
        let selection = |edges_max| Selection {
            filter: filter.clone(),
            edges_max,
        };
        match by {
            FleetBy::Service => {
                let rows = self.ask(&question::service_map(&range, &selection(EDGES_MAX + 1)))?;
                Ok(fleet_map_of_services(rows, EDGES_MAX as usize))
            }
            FleetBy::Host => {
                let rows = self.ask(&question::edges(&range, &selection(ROWS_MAX)))?;
                let is_cut = rows.len() as u64 == ROWS_MAX;
                let mut map = fleet_map_of_edges(&rows, EDGES_MAX as usize);
                map.is_cut |= is_cut;
                Ok(map)
            }
        }
    }

    fn ask<A: Answer>(&self, question: &Question) -> Result<Vec<A>, String> {
        let answer = self
            .0
            .query(&question.sql, &question.parameters)
            .map_err(|error| format!("ClickHouse: {:#}", anyhow::Error::from(error)))?;
        question::read_rows(&answer).map_err(|error| format!("ClickHouse: {error}"))
    }
}

/// Edges of a map: with more of them none can be seen.
const EDGES_MAX: u64 = 300;
/// Edges between addresses that become those between hosts.
const ROWS_MAX: u64 = 20_000;
