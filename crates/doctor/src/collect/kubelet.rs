//! The kubelet's `/healthz`, which every user of the machine can read.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::facts::kubelet::KubeletHealth;
use crate::facts::{Fact, Missing};
use crate::limits::HEALTHZ;

/// The list of checks takes a few hundred bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// Requests the health of the kubelet at `address`.
pub(super) async fn health(address: SocketAddr) -> Fact<KubeletHealth> {
    let source = format!("http://{address}/healthz");
    let stream = match timeout(HEALTHZ, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Fact::missing(error, source),
        Err(_) => return Fact::missing(Missing::overdue(HEALTHZ), source),
    };
    match timeout(HEALTHZ, ask(stream)).await {
        Ok(Ok(answer)) => match parse(&answer) {
            Some(health) => Fact::known(health, source),
            None => Fact::missing("the service at this address is not a kubelet", source),
        },
        Ok(Err(error)) => Fact::missing(error, source),
        Err(_) => Fact::known(KubeletHealth::default(), source),
    }
}

async fn ask(mut stream: TcpStream) -> std::io::Result<String> {
    let request = b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream
        .take(MAX_RESPONSE_BYTES)
        .read_to_end(&mut answer)
        .await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn parse(answer: &str) -> Option<KubeletHealth> {
    let status = answer.strip_prefix("HTTP/1.")?;
    let code = status.split(' ').nth(1)?.parse().ok()?;
    // "[-]syncloop failed: reason withheld"
    let failed = answer.lines().filter_map(|line| line.strip_prefix("[-]"));
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
    fn the_checks_that_fail_are_read() {
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
