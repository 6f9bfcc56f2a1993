//! Arguments of `serve`.

use crate::access::Origin;
use clap::{Args, ValueEnum as _};
use sockeye_console::args::FormatArg;
use sockeye_console::server_args;
use sockeye_console::values;
use sockeye_http::Target;
use sockeye_query::args::{ListingArgs, SampledArgs};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Show connections and findings on a page in the browser, now and of the past
///
/// It prints a URL that works once: the browser then has a cookie, and a new URL is printed for the next one. The page is for this host
/// alone unless --listen names another address, which needs a secret and a certificate, or a proxy that has one. Nothing can be changed from it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 chooses a free one
    #[arg(long, value_name = "IP:PORT", default_value_t = sockeye_console::addresses::SERVE)]
    pub(crate) listen: SocketAddr,
    /// Time between two samples, in seconds
    #[arg(long, value_name = "SECS", default_value = "2", allow_negative_numbers = true, value_parser = sample_interval)]
    pub(crate) sample_interval: Duration,
    /// Time between two checks for findings, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value = "30", allow_negative_numbers = true, value_parser = check_interval)]
    pub(crate) check_interval: Duration,
    /// Memory for the past, in MB; with more flows fewer samples of the older ones are kept
    #[arg(long, value_name = "MB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub(crate) max_memory: u64,
    /// Show also what `sockeye record` kept in this file; otherwise in that of the host, or your own, if there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// File whose first line is a secret with which one can log in, readable by its owner only
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Certificate, with its chain, as PEM: the page is at https then. It is read when the server starts
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM, which other users may not read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A proxy with TLS is in front: other addresses than this host's own may be listened on
    #[arg(long, requires = "public_url")]
    pub(crate) behind_proxy: bool,
    /// URL under which browsers reach the page, if it is another than the address
    #[arg(long, value_name = "URL", value_parser = Origin::parse)]
    pub(crate) public_url: Option<Origin>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    #[command(flatten)]
    pub(crate) sampled: SampledArgs,
}

/// The ClickHouse server that knows many hosts.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    /// Show also the map of many hosts, from the ClickHouse server to which they send; the browser never connects to it
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    pub(crate) fleet: Option<Target>,
    /// The database with the tables
    #[arg(long, value_name = "NAME", default_value = "sockeye", value_parser = server_args::database, requires = "fleet")]
    pub(crate) fleet_database: String,
    /// The user who asks; it needs SELECT only
    #[arg(long, value_name = "NAME", default_value = "default", requires = "fleet")]
    pub(crate) fleet_user: String,
    /// File with the password of the user, in its first line
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub(crate) fleet_password_file: Option<PathBuf>,
    /// File with the certificates of the authorities to trust, as PEM; otherwise those of the host
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub(crate) fleet_tls_ca: Option<PathBuf>,
    /// Certificate by which the server knows this client, with its chain, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["fleet", "fleet_tls_key"])]
    pub(crate) fleet_tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM, which other users may not read
    #[arg(long, value_name = "FILE", requires_all = ["fleet", "fleet_tls_cert"])]
    pub(crate) fleet_tls_key: Option<PathBuf>,
}

impl ServeArgs {
    /// Returns the flags by which other commands list the same.
    pub(crate) fn listing_words(&self) -> Vec<String> {
        let source = self.sampled.source.to_possible_value();
        let source = source.as_ref().map_or("auto", |value| value.get_name());
        let netns = self.sampled.netns.as_deref().map(|netns| ["--netns", netns]);
        let flags = ["--source", source]
            .into_iter()
            .chain(netns.into_iter().flatten());
        flags.map(str::to_owned).collect()
    }

    /// Returns the flags of the listing that is sampled.
    pub(crate) fn listing(&self) -> ListingArgs {
        self.sampled.listing(FormatArg::Json)
    }
}

fn sample_interval(text: &str) -> Result<Duration, String> {
    let interval = values::seconds(text)?;
    if (Duration::from_millis(250)..=Duration::from_mins(1)).contains(&interval) {
        Ok(interval)
    } else {
        Err("expected 0.25 to 60 seconds".to_owned())
    }
}

fn check_interval(text: &str) -> Result<Duration, String> {
    let interval = values::seconds_or_zero(text)?;
    if interval.is_zero() || interval >= Duration::from_secs(10) {
        Ok(interval)
    } else {
        Err("expected 0, or at least 10 seconds".to_owned())
    }
}

const EXAMPLES: &str = "\
Examples:
  sockeye serve                          this host; open the URL that it prints
  sockeye serve --netns all --sample-interval 10
                                         all network namespaces, every 10 seconds
  ssh -L 7117:127.0.0.1:7117 HOST sockeye serve
                                         a page of another host, through ssh
  sockeye serve --listen 10.0.0.5:7117 --tls-cert web1.pem --tls-key web1.key \\
      --public-url https://web1.example.org:7117 --secret-file /etc/sockeye/secret
                                         for others, with a certificate for web1.example.org
  sockeye serve --listen 10.0.0.5:7117 --behind-proxy --public-url https://sockeye.example.org \\
      --secret-file /etc/sockeye/secret  for others, behind a proxy that has the certificate
  sockeye serve --fleet https://clickhouse:8443 --fleet-user reader --fleet-password-file /etc/sockeye/reader
                                         also the map of all hosts that send there";
