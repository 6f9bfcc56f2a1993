//! TLS to a server: whom to trust, who asks, and why a server is refused.

use crate::TlsError;
use crate::stream::TimedStream;
use rustls::crypto::ring;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client};

/// The authorities whose servers are trusted, and the certificate by which a server knows this client.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    options: &'static str,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

impl TlsClient {
    /// Reads the certificates of authorities, and a certificate of this client with its key, all as PEM. An authority in a form that is
    /// not supported is left out, as long as there is another one. `options`: how the options begin that name these files, for messages:
    /// `--tls` of `--tls-ca`.
    ///
    /// # Errors
    /// If there is no authority, or certificate and key do not belong together.
    pub fn from_pem(
        authorities: &[u8],
        identity: Option<(&[u8], &[u8])>,
        options: &'static str,
    ) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        let mut unreadable = None;
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            match certificate {
                Ok(certificate) => drop(roots.add(certificate)),
                Err(error) => unreadable = Some(error),
            }
        }
        if roots.is_empty() {
            return Err(unreadable.map_or(TlsError::NoCertificate, TlsError::Certificate));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Identity)?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificates, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificates)
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(TlsError::Certificate)?;
                if chain.is_empty() {
                    return Err(TlsError::NoCertificate);
                }
                let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
                let with_identity = builder.with_client_auth_cert(chain, key);
                with_identity.map_err(TlsError::Identity)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            options,
        })
    }

    /// Returns how the options begin that name its files.
    pub(crate) const fn options(&self) -> &'static str {
        self.options
    }

    /// Returns the file with the authorities that this host trusts; `None` if there is none where distributions have it.
    #[must_use]
    pub fn system_authorities() -> Option<&'static Path> {
        SYSTEM_AUTHORITIES
            .iter()
            .map(Path::new)
            .find(|path| path.exists())
    }

    /// Returns the same for a server that speaks HTTP/2.
    pub(crate) fn with_http2(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            config: Arc::new(config),
            options: self.options,
        }
    }

    /// Makes the handshake with a server of this name or address.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TimedStream<client::TlsStream<TcpStream>>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let connected = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream);
        connected.await.map(TimedStream::new)
    }
}

/// Returns in words why TLS failed; `None` if an error has another cause. A server that refuses the certificate of its client may do so
/// after the handshake, so that the error is one of the connection. `options`: as [`TlsClient::options`].
pub(crate) fn reason(error: &(dyn Error + 'static), options: &str) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(words(error, options));
        }
        // `source` of an error of the system is that of what it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

fn words(error: &rustls::Error, options: &str) -> String {
    let text = match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            // One of another authority with the same name has a bad signature.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                return format!(
                    "the certificate of the server is signed by no authority that is trusted: {options}-ca names the file of its authority"
                );
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate of the server has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the certificate of the server is not valid yet: is the clock of this host right?"
            }
            CertificateError::NotValidForName => "the certificate of the server is for another name",
            problem @ CertificateError::NotValidForNameContext { .. } => {
                return format!("the certificate of the server is for another name: {problem}");
            }
            problem => return format!("the certificate of the server is not accepted: {problem}"),
        },
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            return format!("the server asks for a certificate: {options}-cert and {options}-key name one");
        }
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied,
        ) => return format!("the server does not accept the certificate of this client ({error})"),
        rustls::Error::InvalidMessage(_) => "the server speaks no TLS: is the URL to begin with http://?",
        error => return format!("TLS: {error}"),
    };
    text.to_owned()
}

/// Where distributions have the authorities that a host trusts: Debian and Arch, Fedora, SUSE, Alpine and OpenBSD.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_need_a_certificate() {
        for text in [
            "",
            "no PEM",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        ] {
            assert!(
                TlsClient::from_pem(text.as_bytes(), None, "--tls").is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn reason_is_found_inside_other_errors() {
        let refused = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let inner = io::Error::new(io::ErrorKind::InvalidData, refused);
        let outer = io::Error::other(inner);
        assert!(
            reason(&outer, "--fleet-tls")
                .unwrap()
                .contains(" --fleet-tls-ca ")
        );
        assert_eq!(reason(&io::Error::from(io::ErrorKind::BrokenPipe), "--tls"), None);
    }
}
