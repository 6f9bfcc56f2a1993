//! The certificate of a server that speaks TLS itself.

use anyhow::{Context, ensure};
use rustix::fs::{Mode, fstat};
use sockeye_http::TlsIdentity;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a certificate with its chain, and its key, which others may not read.
///
/// # Errors
/// If one cannot be read, others may read the key, or they do not belong together.
pub(crate) fn read(certificate: &Path, key: &Path) -> anyhow::Result<TlsIdentity> {
    let (chain, _) = contents("--tls-cert", certificate)?;
    let (private, mode) = contents("--tls-key", key)?;
    // A group may have it: keys of several services do.
    ensure!(
        !mode.intersects(Mode::WGRP | Mode::ROTH | Mode::WOTH),
        "--tls-key {}: other users may read it or change it: chmod 640",
        key.display()
    );
    TlsIdentity::from_pem(&chain, &private).with_context(|| {
        format!(
            "--tls-cert {}, --tls-key {}",
            certificate.display(),
            key.display()
        )
    })
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

/// The longest chain of certificates.
const BYTES_MAX: u64 = 1 << 20;
