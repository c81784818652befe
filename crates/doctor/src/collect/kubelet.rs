//! The kubelet's `/healthz`, which any local user can request.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::facts::kubelet::KubeletHealth;
use crate::facts::{Fact, Missing};
use crate::limits::HEALTHZ;

/// How much of the response is read. The list of checks takes a few hundred bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// Requests the health of the kubelet at `address`.
pub(super) async fn health(address: SocketAddr) -> Fact<KubeletHealth> {
    let source = format!("http://{address}/healthz");
    let stream = match timeout(HEALTHZ, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Fact::missing(error, source),
        Err(_) => return Fact::missing(Missing::overdue(HEALTHZ), source),
    };
    match timeout(HEALTHZ, response(stream)).await {
        Ok(Ok(response)) => {
            let why = "the service at this address is not a kubelet";
            Fact::of(parse(&response).ok_or(why), source)
        }
        Ok(Err(error)) => Fact::missing(error, source),
        Err(_) => Fact::known(KubeletHealth::default(), source),
    }
}

async fn response(mut stream: TcpStream) -> std::io::Result<String> {
    let request = b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut response = Vec::new();
    let mut body = stream.take(MAX_RESPONSE_BYTES);
    body.read_to_end(&mut response).await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

fn parse(response: &str) -> Option<KubeletHealth> {
    let status = response.strip_prefix("HTTP/1.")?;
    let code = status.split(' ').nth(1)?.parse().ok()?;
    // "[-]syncloop failed: reason withheld"
    let failed = response.lines().filter_map(|line| line.strip_prefix("[-]"));
    let names = failed.filter_map(|line| line.split_ascii_whitespace().next());
    Some(KubeletHealth {
        code: Some(code),
        failed: names.take(16).map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failing_checks_are_read() {
        let answer = "HTTP/1.0 500 Internal Server Error\r\n\r\n[+]ping ok\n[+]log ok\n\
                      [-]syncloop failed: reason withheld\nhealthz check failed\n";
        let health = parse(answer).unwrap();
        assert_eq!(health.code, Some(500));
        assert_eq!(health.failed, ["syncloop"]);
        let health = parse("HTTP/1.1 200 OK\r\n\r\nok").unwrap();
        assert_eq!((health.code, health.failed.len()), (Some(200), 0));
        assert!(parse("SSH-2.0-OpenSSH").is_none());
    }
}
