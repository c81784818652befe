//! Credentials that are redacted, and text that only resembles a credential.

use std::time::{Duration, Instant};

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(redact(text), expected, "{text}");
    assert_eq!(redact(expected), expected, "redacted twice: {text}");
}

#[test]
fn the_value_of_a_credential_is_redacted_and_its_key_is_kept() {
    for (text, expected) in [
        ("password=hunter2", "password=[redacted]"),
        (
            "DB_PASSWORD=hunter2 USER=bob",
            "DB_PASSWORD=[redacted] USER=bob",
        ),
        ("passwd = hunter2", "passwd = [redacted]"),
        ("Token=abc, retrying", "Token=[redacted], retrying"),
        ("(secret=abc)", "(secret=[redacted])"),
        (
            "api_key=abc api-key=abc apikey=abc",
            "api_key=[redacted] api-key=[redacted] apikey=[redacted]",
        ),
        ("the clientSecret: abc", "the clientSecret: [redacted]"),
        ("X-Api-Key: abc", "X-Api-Key: [redacted]"),
        ("x-auth-token: abc\r\n", "x-auth-token: [redacted]\r\n"),
        (
            "aws_secret_access_key=wJalr/XUt+nFE",
            "aws_secret_access_key=[redacted]",
        ),
        (
            "aws_secret_access_key = wJalr/XUt+nFE",
            "aws_secret_access_key = [redacted]",
        ),
        (
            "AccountName=a;AccountKey=abc==;EndpointSuffix=b",
            "AccountName=a;AccountKey=[redacted];EndpointSuffix=b",
        ),
        (
            "client-key-data: LS0tLS1CRUdJTg==",
            "client-key-data: [redacted]",
        ),
        ("password='a b' next", "password='[redacted]' next"),
        ("password=\"a \\\" b\" next", "password=\"[redacted]\" next"),
        ("password=ab\\cd)ef'gh&ij next", "password=[redacted] next"),
        ("password=größe next", "password=[redacted] next"),
        ("the password: hunter2", "the password: [redacted]"),
        (
            "with password: hunter2 for bob",
            "with password: [redacted] for bob",
        ),
        (
            "{User:bob Password:hunter2 Token:abc}",
            "{User:bob Password:[redacted] Token:[redacted]}",
        ),
        (
            "using token: abc123 for bob",
            "using token: [redacted] for bob",
        ),
        (
            "?access_token=abc&user=bob",
            "?access_token=[redacted]&user=bob",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn json_and_yaml_are_redacted_even_if_they_are_quoted_again() {
    for (text, expected) in [
        (
            r#"{"password":"x","user":"bob"}"#,
            r#"{"password":"[redacted]","user":"bob"}"#,
        ),
        (
            r#"{"token" : "a\"b", "n": 1}"#,
            r#"{"token" : "[redacted]", "n": 1}"#,
        ),
        (
            r#"{"pin_token": 1234, "n": 1}"#,
            r#"{"pin_token": [redacted], "n": 1}"#,
        ),
        (
            r#"err="{\"password\":\"x\",\"a\":\"b\"}""#,
            r#"err="{\"password\":\"[redacted]\",\"a\":\"b\"}""#,
        ),
        (
            r#"\\\"token\\\":\\\"x\\\",\\\"a\\\""#,
            r#"\\\"token\\\":\\\"[redacted]\\\",\\\"a\\\""#,
        ),
        (r#"{"password":"cut of"#, r#"{"password":"[redacted]"#),
        ("{'token': 'abc'}", "{'token': '[redacted]'}"),
        (
            "  token: abc\n  user: bob\n",
            "  token: [redacted]\n  user: bob\n",
        ),
        ("- secret: abc", "- secret: [redacted]"),
        ("password: \"a b\" # c", "password: \"[redacted]\" # c"),
        ("{user: bob, token: abc}", "{user: bob, token: [redacted]}"),
    ] {
        check(text, expected);
    }
}

#[test]
fn values_of_flags_and_mount_options_are_redacted() {
    for (text, expected) in [
        ("curl --token=abc x", "curl --token=[redacted] x"),
        (
            "login --password hunter2 --user bob",
            "login --password [redacted] --user bob",
        ),
        ("login -password 'a b' x", "login -password '[redacted]' x"),
        (
            r#"["--token","abc","--v"]"#,
            r#"["--token","[redacted]","--v"]"#,
        ),
        ("[--token, abc123, --v]", "[--token, [redacted], --v]"),
        (
            "mount -t cifs -o username=x,password=y,uid=0 //nas/share /mnt",
            "mount -t cifs -o username=x,password=[redacted],uid=0 //nas/share /mnt",
        ),
        (
            "mount.cifs -o user=x,pass=y,password2=z,cred=/root/c,ro",
            "mount.cifs -o user=x,pass=[redacted],password2=[redacted],cred=[redacted],ro",
        ),
    ] {
        check(text, expected);
    }
}

#[test]
fn credentials_with_a_known_form_are_redacted_completely() {
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2ln-bmF0_dXJl";
    for (text, expected) in [
        (format!("got {jwt}, bad"), "got [redacted], bad"),
        (
            "eyJhdXRocyI6eyJyZWdpc3RyeSI6e319fQ== x".into(),
            "[redacted] x",
        ),
        (
            "id AKIAIOSFODNN7EXAMPLE denied".into(),
            "id [redacted] denied",
        ),
        (
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a".into(),
            "[redacted]",
        ),
        (
            "Authorization: Basic dXNlcjpwYXNz".into(),
            "Authorization: Basic [redacted]",
        ),
        (
            format!("-H 'authorization: Bearer {jwt}' x"),
            "-H 'authorization: Bearer [redacted]' x",
        ),
        (
            "map[Accept:[*/*] Authorization:[Bearer abc]]".into(),
            "map[Accept:[*/*] Authorization:[Bearer [redacted]]]",
        ),
        (
            r#""Authorization":"abc","a":"b""#.into(),
            r#""Authorization":"[redacted]","a":"b""#,
        ),
        (
            r#""Authorization":["Bearer abc"],"a":"b""#.into(),
            r#""Authorization":["Bearer [redacted]"],"a":"b""#,
        ),
        (
            "Authorization: Digest username=\"bob\", response=\"abc\"\nHost: a".into(),
            "Authorization: Digest [redacted]\nHost: a",
        ),
        (
            "using Bearer 0123456789abcdef now".into(),
            "using Bearer [redacted] now",
        ),
        (
            "https://bob:a@b@host:1/x".into(),
            "https://[redacted]@host:1/x",
        ),
        (
            "https://abc@github.com/a b@c".into(),
            "https://[redacted]@github.com/a b@c",
        ),
        (
            "//bob:abc@nas/share on /mnt".into(),
            "//[redacted]@nas/share on /mnt",
        ),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY----- b".into(),
            "a -----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY----- b",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\\nMIIE".into(),
            "-----BEGIN PRIVATE KEY-----[redacted]",
        ),
    ] {
        check(&text, expected);
    }
}

#[test]
fn text_that_only_resembles_a_credential_is_unchanged() {
    for text in [
        "token expired",
        "the token has expired: renew it",
        "failed to fetch token: Unauthorized",
        "failed to fetch token: 401 Unauthorized",
        "failed to fetch token: x509: certificate has expired",
        "cannot get secret: \"foo\" not found",
        "tokenreviews.authentication.k8s.io is forbidden",
        "secret \"foo\" not found",
        "secret \"default-token\": not found",
        "MountVolume.SetUp failed for volume \"kube-api-access-token\" : timed out",
        "references non-existent secret key: ca.crt",
        "key=a keys=b configmap=kube-system/keys key: c",
        "wrong password for user bob",
        "password authentication failed",
        "password: authentication failed",
        "password=\"\" token= secret=''",
        "automountServiceAccountToken=false automountServiceAccountToken: true",
        "\"token\":null,\"secret\":{\"secretName\":\"foo\"}",
        "--token-auth-file=/etc/tokens --authorization-mode Node,RBAC",
        "the flag --token is missing",
        "authorization: denied by policy",
        "Basic authentication, a Bearer token",
        "image registry/a/token:1.2",
        "pass: 3, credentials: none",
        "token == other.token",
        "http://host:8080/a@b //comment with a@b git@github.com:a/b",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "61ac7eca54e9f3a1b2 sha256:deadbeefdeadbeefdeadbeef eyJ AKIA",
        "golang.org/x/oauth2.(*reuseTokenSource).Token(0xc000123)",
        "größe = 名前 \u{1b}",
        "",
    ] {
        assert!(
            matches!(redact(text), Cow::Borrowed(it) if it == text),
            "{}",
            redact(text)
        );
    }
}

#[test]
fn redaction_takes_linear_time() {
    let parts = [
        "token",
        "=",
        ":",
        " ",
        "\"",
        "\\",
        "'",
        ",",
        "--password",
        "x/token:",
        "//",
        "@",
        "&a",
        "&",
        "-----BEGIN ",
        "PRIVATE KEY-----",
        "Authorization: ",
        "Bearer ",
        "digest ",
        "eyJ",
        "_",
        ")",
        "password: ",
        "\"token\":",
        "{",
        "ö",
        "\n",
        "Token: a ",
        "pass=",
    ];
    for one in parts {
        for other in parts {
            // Some milliseconds; if the time were quadratic, several seconds.
            let text = [one, other].concat().repeat(2000);
            let began = Instant::now();
            redact(&text);
            let took = began.elapsed();
            assert!(took < Duration::from_secs(1), "{one:?} {other:?}: {took:?}");
        }
    }
}

#[test]
fn a_redacted_text_does_not_change_if_it_is_redacted_again() {
    let parts = [
        "token",
        "=",
        ": ",
        " ",
        "\"",
        "\\",
        "'",
        ",",
        "--password",
        "secret",
        "//",
        "@",
        "&a",
        "1",
        "-----BEGIN PRIVATE KEY-----",
        "-----END",
        "Authorization: ",
        "Bearer ",
        "Digest ",
        "[",
        "]",
        "eyJhbGciOiJSUzI1NiJ9a",
        "ö",
        "\n",
        "{",
        "}",
    ];
    let mut state = 1_u64;
    for _ in 0..50_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            text.push_str(parts[(state >> 33) as usize % parts.len()]);
        }
        let once = redact(&text).into_owned();
        assert_eq!(redact(&once), once, "of {text:?}");
    }
}
