//! HTTP clients of an agent that keep connections open, send nothing, or do not read.

use std::io::Write;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::support::{Agent, FakeRuntime, Stream, connect, get, request};

/// The part of a request that is sent before a client stops sending.
const BEGINNINGS: [&str; 3] = [
    "",
    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
];

/// The time limit for `/livez`, whatever other clients do.
const SOON: Duration = Duration::from_secs(3);

/// An agent, and all its addresses.
fn agent_and_addresses(runtime: &FakeRuntime) -> (Agent, [String; 3]) {
    let agent = Agent::configured(&runtime.endpoint(), "metricsListen: 127.0.0.1:0\n");
    agent.wait_healthy();
    let addresses = [
        agent.socket.clone(),
        agent.health_address.clone(),
        agent.metrics_address.clone().unwrap(),
    ];
    (agent, addresses)
}

#[track_caller]
fn assert_alive(address: &str) {
    let begun = Instant::now();
    assert_eq!(get(address, "/livez").body, "ok\n");
    let took = begun.elapsed();
    assert!(took < SOON, "{address}: {took:?}");
}

#[test]
fn a_thousand_idle_connections_do_not_block_livez() {
    let runtime = FakeRuntime::with_pods(&[]);
    let (_agent, addresses) = agent_and_addresses(&runtime);
    for address in &addresses {
        for beginning in BEGINNINGS {
            let idle: Vec<Box<dyn Stream>> = (0..1000)
                .map(|_| {
                    let mut stream = connect(address);
                    // The agent may have closed the connection already.
                    let _ = stream.write_all(beginning.as_bytes());
                    stream
                })
                .collect();
            assert_alive(address);
            drop(idle);
        }
    }
}

#[test]
fn headers_byte_by_byte_do_not_block_livez() {
    let runtime = FakeRuntime::with_pods(&[]);
    let (_agent, addresses) = agent_and_addresses(&runtime);
    for address in &addresses {
        let mut slow: Vec<Box<dyn Stream>> = (0..500).map(|_| connect(address)).collect();
        let slowly = spawn(move || {
            for _ in 0..20 {
                for stream in &mut slow {
                    let _ = stream.write_all(b"G");
                }
                sleep(Duration::from_millis(50));
            }
        });
        while !slowly.is_finished() {
            assert_alive(address);
            sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn slow_clients_do_not_block_livez() {
    // Far more than the kernel buffers for a connection.
    let runtime = FakeRuntime::with_pods(&[]);
    for number in 0..600 {
        runtime.sim.run(&format!("web-{number}"), &["app"]);
    }
    let agent = Agent::watching(&runtime.endpoint());
    agent.wait_healthy();
    let asked = b"GET /v1/pods HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let unread: Vec<Box<dyn Stream>> = (0..260)
        .map(|_| {
            let mut stream = connect(&agent.socket);
            let _ = stream.write_all(asked);
            stream
        })
        .collect();
    // While connections are being accepted, and while all of them are open.
    for _ in 0..5 {
        assert_eq!(agent.get("/livez").code, 200);
    }
    assert_alive(&agent.socket);
    drop(unread);
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
        let (code, ..) = request(&agent.socket, "GET /v1/events HTTP/1.0\r\n\r\n");
        code == 200
    });
}
