//! TCP connections, for HTTP and TCP checks.

use std::io;

use tokio::net::TcpStream;

/// Connects to a name or an address. An IPv6 address may have brackets.
pub(super) async fn open(host: &str, port: u16) -> Result<TcpStream, String> {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let stream: io::Result<_> = TcpStream::connect((bare.unwrap_or(host), port)).await;
    stream.map_err(|error| format!("no connection to {host} port {port}: {error}"))
}
