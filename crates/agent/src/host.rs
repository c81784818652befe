//! Who is asked for: a web page can reach loopback under a name of its own, whose address
//! it changes once it is loaded (DNS rebinding). Its browser then still says that name.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const REFUSAL: &str = "/v1 is for this machine: ask for it as 127.0.0.1, [::1] or localhost\n";

/// Answers only those who ask for loopback, or (in HTTP/1.0) for nobody.
pub async fn loopback_only(request: Request, next: Next) -> Response {
    if request
        .headers()
        .get_all(header::HOST)
        .iter()
        .all(is_loopback)
    {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, REFUSAL).into_response()
    }
}

fn is_loopback(host: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Result<IpAddr, _> = address.parse();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_loopback() {
        for (host, loopback) in [
            ("localhost", true),
            ("LocalHost:20258", true),
            ("127.0.0.1", true),
            ("127.0.0.1:1", true),
            ("127.255.0.3:1", true),
            ("[::1]", true),
            ("[::1]:20258", true),
            ("", false),
            (":20258", false),
            ("evil.example:20258", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost@evil.example", false),
            ("0.0.0.0", false),
            ("192.0.2.1", false),
            ("[2001:db8::1]:1", false),
            ("127.0.0.1/evil", false),
            ("two words", false),
        ] {
            let header = HeaderValue::from_static(host);
            assert_eq!(is_loopback(&header), loopback, "{host:?}");
        }
    }
}
