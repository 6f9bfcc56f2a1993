//! TLS for connections that are accepted. The handshake is part of a connection, so that a peer that is slow with it delays no other one.

use crate::listener::Listener;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{Accept, TlsAcceptor, server};

/// A certificate with its key.
#[derive(Clone)]
pub struct TlsIdentity(Arc<ServerConfig>);

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

/// Why a certificate and a key cannot be used.
#[derive(Debug)]
pub enum TlsError {
    /// The text has no certificate in PEM form.
    NoCertificate,
    /// The text is no PEM, or has no private key.
    Key(rustls_pki_types::pem::Error),
    /// A certificate is no PEM.
    Certificate(rustls_pki_types::pem::Error),
    /// They do not belong together, or are of a kind that is not supported.
    Identity(rustls::Error),
}

impl TlsIdentity {
    /// Reads the certificate, its chain behind it, and the key, all as PEM.
    ///
    /// # Errors
    /// If there is none, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(TlsError::Identity)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("there is no certificate in PEM form"),
            Self::Key(_) => f.write_str("there is no private key in PEM form"),
            Self::Certificate(_) => f.write_str("a certificate cannot be read"),
            Self::Identity(_) => f.write_str("the certificate and the key cannot be used"),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoCertificate => None,
            Self::Key(error) | Self::Certificate(error) => Some(error),
            Self::Identity(error) => Some(error),
        }
    }
}

/// A TCP port on which TLS is spoken.
pub struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for TlsListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsListener").finish_non_exhaustive()
    }
}

impl TlsListener {
    /// Speaks TLS on a port.
    #[must_use]
    pub fn new(listener: TcpListener, identity: TlsIdentity) -> Self {
        Self {
            listener,
            acceptor: TlsAcceptor::from(identity.0),
        }
    }
}

impl Listener for TlsListener {
    type Stream = TlsStream;

    async fn next(&self) -> io::Result<(TlsStream, Option<IpAddr>)> {
        let (stream, peer) = self.listener.accept().await?;
        let handshake = State::Handshake(Box::new(self.acceptor.accept(stream)));
        Ok((TlsStream(handshake), Some(peer.ip())))
    }
}

/// A connection with TLS. The first read or write makes the handshake.
pub struct TlsStream(State);

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}

enum State {
    Handshake(Box<Accept<TcpStream>>),
    Open(Box<server::TlsStream<TcpStream>>),
    Failed,
}

impl TlsStream {
    /// Makes the handshake, if that is still to be done.
    fn open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut server::TlsStream<TcpStream>>>> {
        if let State::Handshake(accept) = &mut self.0 {
            self.0 = match ready!(Pin::new(accept).poll(cx)) {
                Ok(stream) => State::Open(Box::new(stream)),
                Err(error) => {
                    self.0 = State::Failed;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match &mut self.0 {
            State::Open(stream) => Ok(Pin::new(stream)),
            _ => Err(io::ErrorKind::ConnectionAborted.into()),
        })
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.get_mut().open(cx))?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.get_mut().open(cx))?.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.get_mut().open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that has not begun is closed by dropping it.
        match &mut self.get_mut().0 {
            State::Open(stream) => Pin::new(stream).poll_shutdown(cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}
