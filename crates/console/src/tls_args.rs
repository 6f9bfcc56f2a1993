//! Options of commands that speak TLS to a server, and files with certificates and keys.

use anyhow::{Context, ensure};
use clap::Args;
use rustix::fs::{Mode, fstat};
use sockeye_http::{Target, TlsClient};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Whom to trust, and who asks.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsArgs {
    /// File with the certificates of the authorities to trust, as PEM; otherwise those of the host
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate by which the server knows this client, with its chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM, which other users may not read
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Reads the files. Returns `None` for a target without TLS.
    ///
    /// # Errors
    /// If a file cannot be read, others may read the key, it does not belong to the certificate, or the target has no TLS.
    pub fn client(&self, target: &Target) -> anyhow::Result<Option<TlsClient>> {
        self.client_of(target, "--tls")
    }

    /// The same for options with other names: `options` is how they begin, for messages.
    ///
    /// # Errors
    /// Those of [`client`](Self::client).
    pub fn client_of(&self, target: &Target, options: &'static str) -> anyhow::Result<Option<TlsClient>> {
        let [ca, cert, key] = ["ca", "cert", "key"].map(|part| format!("{options}-{part}"));
        if !target.is_tls() {
            let is_named = self.tls_ca.is_some() || self.tls_cert.is_some();
            ensure!(
                !is_named,
                "{target} has no TLS, and certificates are named: the URL has to begin with https://"
            );
            return Ok(None);
        }
        let authorities = match &self.tls_ca {
            Some(named) => named.as_path(),
            None => TlsClient::system_authorities()
                .with_context(|| format!("this host has no file of authorities to trust: {ca} names one"))?,
        };
        let trusted = read_certificates(&ca, authorities)?;
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(private)) => Some((
                read_certificates(&cert, certificate)?,
                read_private_key(&key, private)?,
            )),
            _ => None,
        };
        let identity = identity
            .as_ref()
            .map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        let client = TlsClient::from_pem(&trusted, identity, options);
        client.map(Some).with_context(|| {
            let named = [
                (ca, Some(authorities)),
                (cert, self.tls_cert.as_deref()),
                (key, self.tls_key.as_deref()),
            ];
            let named = named
                .into_iter()
                .filter_map(|(option, path)| Some(format!("{option} {}", path?.display())));
            named.collect::<Vec<_>>().join(", ")
        })
    }
}

/// Reads certificates.
///
/// # Errors
/// If the file cannot be read.
pub fn read_certificates(option: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    contents(option, path).map(|(bytes, _)| bytes)
}

/// Reads a private key, which others may not read. A group may: keys of several services do.
///
/// # Errors
/// If the file cannot be read, or others can read it.
pub fn read_private_key(option: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let (bytes, mode) = contents(option, path)?;
    ensure!(
        !mode.intersects(Mode::WGRP | Mode::ROTH | Mode::WOTH),
        "{option} {}: other users may read it or change it: chmod 640",
        path.display()
    );
    Ok(bytes)
}

fn contents(option: &str, path: &Path) -> anyhow::Result<(Vec<u8>, Mode)> {
    let describe = || format!("{option} {}", path.display());
    let file = File::open(path).with_context(describe)?;
    let mode = Mode::from_raw_mode(fstat(&file).with_context(describe)?.st_mode);
    let mut bytes = Vec::new();
    file.take(BYTES_MAX)
        .read_to_end(&mut bytes)
        .with_context(describe)?;
    Ok((bytes, mode))
}

/// The longest file of certificates. That of a distribution has 0.2 MB.
const BYTES_MAX: u64 = 4 << 20;
