//! The certificate of a server that speaks TLS itself.

use anyhow::Context;
use sockeye_console::tls_args::{read_certificates, read_private_key};
use sockeye_http::TlsIdentity;
use std::path::Path;

/// Reads a certificate with its chain, and its key, which others may not read.
///
/// # Errors
/// If one cannot be read, others may read the key, or they do not belong together.
pub(crate) fn read(certificate: &Path, key: &Path) -> anyhow::Result<TlsIdentity> {
    let chain = read_certificates("--tls-cert", certificate)?;
    let private = read_private_key("--tls-key", key)?;
    TlsIdentity::from_pem(&chain, &private).with_context(|| {
        format!(
            "--tls-cert {}, --tls-key {}",
            certificate.display(),
            key.display()
        )
    })
}
