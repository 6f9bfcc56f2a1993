//! `sockeye fleet schema`: the tables.

use crate::args::SchemaArgs;
use crate::server::server;
use anyhow::Context;
use sockeye_console::notes::say;
use sockeye_console::stdout;
use sockeye_fleet::{HOSTS, REMEMBERED_MINUTES, RowReader, SCHEMA_VERSION, SchemaOptions};

/// Prints the statements, or executes those that the server lacks.
pub(super) fn run(args: &SchemaArgs) -> anyhow::Result<()> {
    let options = SchemaOptions {
        database: args.server.database.clone(),
        cluster: args.cluster.clone(),
        hosts: args.hosts.unwrap_or(HOSTS),
    };
    if options.minutes_remembered() < REMEMBERED_MINUTES {
        say(&format!(
            "sockeye: the inserts of {} hosts are remembered for {} minutes: what a host sends again later than that is stored twice\n",
            options.hosts,
            options.minutes_remembered()
        ));
    }
    if !args.apply {
        let all = options.statements(0).join(";\n\n");
        return stdout::write(format!("{all};\n").as_bytes());
    }
    let server = server(&args.server)?;
    let version = match server.query(&options.version_query(), &[]) {
        Ok(answer) => RowReader::new(&answer).u32()?,
        Err(error) if error.is_missing() => 0,
        Err(error) => return Err(anyhow::Error::from(error)).context(server.target().to_string()),
    };
    let mut statements = options.statements(version);
    if version > 0 && args.hosts.is_some() {
        statements.extend(options.remembering());
    }
    for statement in statements {
        let first = statement.lines().next().unwrap_or_default();
        server.execute(&statement).with_context(|| first.to_owned())?;
    }
    say(&format!(
        "sockeye: the tables of {} have version {SCHEMA_VERSION} (before: {version})\n",
        options.database
    ));
    Ok(())
}
