//! A client for servers other than the API server. It sends exactly the given bytes over TLS, valid or
//! not.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::tls::ClientCertificate;

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A connection of an [`HttpsClient`].
pub type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

/// A client of a server on `localhost`, with a new connection for each request.
#[derive(Debug, Clone)]
pub struct HttpsClient {
    address: SocketAddr,
    roots: Arc<RootCertStore>,
    config: Arc<ClientConfig>,
    headers: Vec<String>,
}

/// An answer, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpsResponse {
    /// The status.
    pub code: u16,
    /// The lines of the head, in lower case.
    pub head: String,
    /// What follows.
    pub body: String,
}

impl HttpsClient {
    /// An anonymous client. The server's certificate must come from one of the authorities in
    /// `trusted`, as PEM.
    pub fn new(address: SocketAddr, trusted: &str) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
            roots.add(certificate.map_err(|error| unclear(&error))?)?;
        }
        let roots = Arc::new(roots);
        let config = Arc::new(config(&roots, None)?);
        Ok(Self { address, roots, config, headers: Vec::new() })
    }

    /// The same client with a client certificate.
    pub fn with_certificate(&self, own: &ClientCertificate) -> Result<Self, rustls::Error> {
        Ok(Self { config: Arc::new(config(&self.roots, Some(own))?), ..self.clone() })
    }

    /// The same client with a token.
    pub fn with_token(&self, token: &str) -> Self {
        self.with_header(&format!("Authorization: Bearer {token}"))
    }

    /// The same client with an additional header line in every request.
    pub fn with_header(&self, line: &str) -> Self {
        let mut client = self.clone();
        client.headers.push(line.to_owned());
        client
    }

    /// A new connection, on which nothing has been sent yet.
    pub fn connect(&self) -> io::Result<TlsConnection> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.config.clone(), name);
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = StreamOwned::new(connection.map_err(io::Error::other)?, stream);
        while connection.conn.is_handshaking() {
            connection.conn.complete_io(&mut connection.sock)?;
        }
        Ok(connection)
    }

    /// `GET path`.
    pub fn get(&self, path: &str) -> io::Result<HttpsResponse> {
        self.send("GET", path, "")
    }

    /// `method path`, with a body.
    pub fn send(&self, method: &str, path: &str, body: &str) -> io::Result<HttpsResponse> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for line in &self.headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        let length = body.len();
        self.say(&format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"))
    }

    /// Sends a request, and reads the answer until the server closes the connection.
    pub fn say(&self, request: &str) -> io::Result<HttpsResponse> {
        let mut connection = self.connect()?;
        // A server that stops reading may close the connection before the request is sent completely,
        // but it may have answered.
        let said = connection.write_all(request.as_bytes()).and_then(|()| connection.flush());
        let mut bytes = Vec::new();
        let read = read_all(&mut connection, &mut bytes);
        answer(&bytes).ok_or_else(|| {
            let why = said.err().or(read.err().filter(|_| bytes.is_empty()));
            why.unwrap_or_else(|| io::Error::other("the answer is no HTTP, or not whole"))
        })
    }
}

/// Reads what has been received, even if nothing can be written any more. [`TlsConnection`] itself would try to
/// write first.
fn read_all(connection: &mut TlsConnection, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        match connection.conn.reader().read_to_end(bytes) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if connection.conn.read_tls(&mut connection.sock)? == 0 {
            return Ok(());
        }
        connection.conn.process_new_packets().map_err(io::Error::other)?;
    }
}

fn config(
    roots: &Arc<RootCertStore>,
    own: Option<&ClientCertificate>,
) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(Arc::clone(roots));
    let Some(own) = own else { return Ok(config.with_no_client_auth()) };
    let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).map_err(|error| unclear(&error))?;
    config.with_client_auth_cert(vec![certificate.map_err(|error| unclear(&error))?], key)
}

fn unclear(error: &rustls::pki_types::pem::Error) -> rustls::Error {
    rustls::Error::General(error.to_string())
}

/// Parses an answer with its complete body; `None` if it is not an answer or is incomplete.
fn answer(bytes: &[u8]) -> Option<HttpsResponse> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    let head = head.to_ascii_lowercase();
    let body = if head.contains("\r\ntransfer-encoding: chunked") {
        joined(body)?
    } else {
        body.to_owned()
    };
    Some(HttpsResponse { code, head, body })
}

/// Puts the parts of a chunked body together.
fn joined(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (length, more) = rest.split_once("\r\n")?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.push_str(more.get(..length)?);
        rest = more.get(length..)?.strip_prefix("\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_in_one_piece_or_many() {
        let whole = answer(b"HTTP/1.1 200 OK\r\nX-A: B\r\n\r\nhello").expect("it is one");
        assert_eq!((whole.code, whole.body.as_str()), (200, "hello"));
        assert!(whole.head.ends_with("x-a: b"), "{}", whole.head);
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        assert_eq!(answer(chunked).expect("it is one").body, "hello");
        assert_eq!(answer(&chunked[..chunked.len() - 6]), None, "it broke off");
        assert_eq!(answer(b""), None);
    }
}
