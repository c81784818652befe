//! Clients of an agent's HTTP that keep their connections, say nothing, or come by a web page.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{Agent, FakeRuntime, PATIENCE, get, request};

/// What is sent before somebody goes silent.
const BEGINNINGS: [&str; 3] = [
    "",
    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
];

#[test]
fn connections_that_say_nothing_are_closed_and_others_are_answered() {
    let runtime = FakeRuntime::with_pods(&[]);
    let agent = Agent::configured(&runtime.endpoint(), "metricsListen: 127.0.0.1:0\n");
    agent.wait_healthy();
    let metrics_address = agent.metrics_address.clone().unwrap();
    // More than either takes at once.
    for (address, many) in [(&agent.address, 300), (&metrics_address, 100)] {
        let begun = Instant::now();
        let silent: Vec<TcpStream> = (0..many)
            .map(|number| {
                let mut stream = TcpStream::connect(address).unwrap();
                let beginning = BEGINNINGS[number % BEGINNINGS.len()];
                // It may have been closed already.
                let _ = stream.write_all(beginning.as_bytes());
                stream
            })
            .collect();
        assert_eq!(get(address, "/livez").code, 200);
        for mut stream in silent {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut said = Vec::new();
            let closed = stream.read_to_end(&mut said);
            let open = closed.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            assert!(!open, "still open after {:?}", begun.elapsed());
        }
    }
}

#[test]
fn event_streams_have_a_limit_that_leaves_room_for_everything_else() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let mut streams: Vec<_> = (0..128).map(|_| agent.events()).collect();
    for events in &mut streams {
        events.next().unwrap();
    }
    let refused = agent.get("/v1/events");
    assert_eq!(refused.code, 503);
    assert_eq!(refused.body, "128 event streams are open already\n");
    assert_eq!(agent.get("/livez").code, 200);
    runtime.sim.exit("a", "x", 7);
    let died = streams[0].find(|record| record["type"] == "ContainerDied");
    assert_eq!(died.unwrap()["exitCode"], 7);
    drop(streams);
    agent.wait("/v1/status", |_| {
        let (code, ..) = request(&agent.address, "GET /v1/events HTTP/1.0\r\n\r\n");
        code == 200
    });
}

#[test]
fn v1_is_not_for_web_pages_that_found_a_way_to_loopback() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let ask = |path: &str, host: &str| {
        let (code, _, mut rest) = request(
            &agent.address,
            &format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n"),
        );
        let mut body = String::new();
        if code == 403 {
            rest.read_to_string(&mut body).unwrap();
        }
        (code, body)
    };
    for path in ["/v1/pods", "/v1/status", "/v1/events"] {
        for host in [
            "evil.example",
            "evil.example:20258",
            "127.0.0.1.evil.example",
            "localhost.evil.example:1",
            "192.0.2.1:20258",
            "localhost@evil.example",
            "",
        ] {
            let (code, body) = ask(path, &format!("Host: {host}\r\n"));
            assert_eq!(code, 403, "{path} {host:?}");
            assert!(body.starts_with("/v1 is for this machine: "), "{body:?}");
            assert_eq!(body.matches('\n').count(), 1, "{body:?}");
        }
        let two = "Host: localhost\r\nHost: evil.example\r\n";
        assert_eq!(ask(path, two).0, 403, "{path}");
        for host in [
            "localhost",
            "LOCALHOST:20258",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:20258",
        ] {
            let (code, _) = ask(path, &format!("Host: {host}\r\n"));
            assert_eq!(code, 200, "{path} {host:?}");
        }
        let (code, ..) = request(&agent.address, &format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert_eq!(code, 200, "{path}, and nobody named");
    }
    let probe = "GET /livez HTTP/1.0\r\nHost: node-7.example\r\n\r\n";
    assert_eq!(request(&agent.address, probe).0, 200);
}
