//! TCP connections, for HTTP and TCP checks.

use tokio::net::TcpStream;

/// A host without the brackets that an IPv6 address may have.
pub(super) fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inner.unwrap_or(host)
}

/// Connects to a name or an address. An IPv6 address may have brackets.
pub(super) async fn open(host: &str, port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((bare(host), port)).await;
    stream.map_err(|error| format!("no connection to {host} port {port}: {error}"))
}
