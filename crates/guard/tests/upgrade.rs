//! A guard is replaced by the next one during a fault, on a socket that systemd holds open.

#![allow(
    clippy::print_stdout,
    reason = "the times are what a person wants to see"
)]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cri::v1::{ListContainersRequest, ListContainersResponse, VersionRequest, VersionResponse};
use cri::{ApiVersion, Client, Endpoint, Rpc};
use rustix::process::{Pid, Signal, kill_process};
use sim::Sim;

/// Serves a simulated runtime in a separate thread.
fn serve(socket: &Path) -> Sim {
    let sim = Sim::new();
    for pod in ["web", "shop", "db"] {
        sim.run(pod, &["app"]);
    }
    let listener = UnixListener::bind(socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let served = sim.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            sim::grpc::serve(served, listener).await
        })
    });
    sim
}

/// Starts a guard on the socket that its supervisor holds open: file descriptor 3 (sd_listen_fds(3)).
fn start(folder: &Path, held: &UnixListener) -> Child {
    let script = "exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_pleg-guard"), "-r"])
        .arg(folder.join("runtime.sock"))
        .arg("--listen")
        // Another path to the same socket, like `/var/run` for `/run`.
        .arg(folder.join("same/cri.sock"))
        .env("PLEG_STATE_DIR", folder)
        .stdin(Stdio::from(OwnedFd::from(held.try_clone().unwrap())))
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

async fn list(client: &Client) -> Result<usize, tonic::Status> {
    let request = ListContainersRequest::default();
    let list: ListContainersResponse = client
        .unary(ApiVersion::V1, Rpc::ListContainers, request)
        .await?;
    Ok(list.containers.len())
}

async fn version(client: &Client) -> Result<(), tonic::Status> {
    let request = VersionRequest::default();
    let answer = client.unary(ApiVersion::V1, Rpc::Version, request).await;
    answer.map(|_: VersionResponse| ())
}

/// The longest time between two answers.
async fn longest_gap<F>(ends: Arc<AtomicBool>, call: impl Fn() -> F) -> Duration
where
    F: Future<Output = Result<(), tonic::Status>>,
{
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !ends.load(Ordering::Relaxed) {
        if call().await.is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    longest
}

/// Enforces G17.
#[tokio::test]
async fn a_client_waits_for_a_moment_only_while_the_guard_is_replaced_in_mid_fault() {
    let folder = tempfile::tempdir().unwrap();
    let sim = serve(&folder.path().join("runtime.sock"));
    let guarded = folder.path().join("cri.sock");
    std::os::unix::fs::symlink(folder.path(), folder.path().join("same")).unwrap();
    let held = UnixListener::bind(&guarded).unwrap();
    let mut guard = start(folder.path(), &held);
    let client = Client::new(&Endpoint::new(&guarded), 1 << 20);
    assert_eq!(list(&client).await.unwrap(), 3);
    // The records are saved every half a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    sim.status_lock("web", "app");
    assert_eq!(list(&client).await.unwrap(), 3, "the guard answers");

    let ends = Arc::new(AtomicBool::new(false));
    let versions = longest_gap(ends.clone(), || version(&client));
    let replace = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let pid = Pid::from_raw(guard.id().try_into().unwrap()).unwrap();
        let requested = Instant::now();
        kill_process(pid, Signal::TERM).unwrap();
        while guard.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("it ended after {:?}", requested.elapsed());
        guard = start(folder.path(), &held);
        tokio::time::sleep(Duration::from_secs(1)).await;
        ends.store(true, Ordering::Relaxed);
    };
    let (versions, ()) = tokio::join!(versions, replace);
    guard.kill().unwrap();
    guard.wait().unwrap();
    println!("Version was not answered for {versions:?} at most");
    // The limits allow for a debug build on a busy machine.
    assert!(versions < Duration::from_millis(500), "{versions:?}");
}
