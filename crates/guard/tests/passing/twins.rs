//! Two equal simulated runtimes, one of them behind a guard: both answer the same call with the same
//! bytes.

use std::path::Path;

use bytes::Bytes;
use cri::{ApiVersion, Rpc, v1};
use fastrand::Rng;
use guard::core::{Mode, Settings};
use guard::{Handle, Proxy};
use prost::Message;
use sim::Sim;
use tempfile::TempDir;
use tokio::net::UnixListener;

use crate::wire::{Client, Seen, connect, framed, request};

/// How many calls are made: about a hundred of each method.
const CALLS: usize = 4000;

struct Twins {
    direct: Client,
    guarded: Client,
    _folder: TempDir,
    _guard: Handle,
}

fn serve(path: &Path) {
    let sim = Sim::new();
    for number in 0..5 {
        sim.run(&format!("p{number}"), &["a", "b"]);
    }
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(sim::grpc::serve(sim, listener));
}

impl Twins {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        serve(&path("one.sock"));
        serve(&path("other.sock"));
        let listener = std::os::unix::net::UnixListener::bind(path("guard.sock")).unwrap();
        let proxy = Proxy {
            runtime: path("other.sock"),
            socket: path("guard.sock"),
            settings: Settings::default(),
            state: None,
            ids: base::host::no_ids(),
            unix_nanos: 0,
        };
        let guard = proxy.start(listener, Mode::Guard).unwrap();
        Self {
            direct: connect(path("one.sock")).await,
            guarded: connect(path("guard.sock")).await,
            _folder: folder,
            _guard: guard,
        }
    }

    /// Calls both runtimes, and returns their answer, which must be the same.
    async fn call(&mut self, rpc: Rpc, message: &[u8]) -> Seen {
        let path = rpc.path(ApiVersion::V1);
        let call = || request(&path, framed(message), &[]);
        let one = Seen::of(self.direct.send(call()).await).await;
        let other = Seen::of(self.guarded.send(call()).await).await;
        assert_eq!(comparable(&one), comparable(&other), "{rpc} {message:?}");
        one
    }
}

/// An answer without what may differ: the order of labels, and the `date` header.
fn comparable(seen: &Seen) -> Seen {
    let mut seen = seen.clone();
    seen.headers.remove("date");
    let mut body = seen.body.to_vec();
    body.sort_unstable();
    seen.body = body.into();
    seen
}

fn sandbox_config(rng: &mut Rng) -> v1::PodSandboxConfig {
    let name = format!("p{}", rng.u8(0..8));
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            uid: format!("uid-{name}"),
            namespace: "default".to_owned(),
            name,
            attempt: rng.u32(0..3),
        }),
        ..Default::default()
    }
}

/// A request of a kubelet for an id that exists, has existed, or will never exist.
fn message(rng: &mut Rng, rpc: Rpc) -> Vec<u8> {
    let number = rng.u8(0..8);
    let sandbox = format!("p{number}.{}", rng.u8(0..3));
    let container = format!(
        "p{number}/{}.{}",
        rng.choice(["a", "b"]).unwrap(),
        rng.u8(0..3)
    );
    match rpc {
        Rpc::RunPodSandbox => v1::RunPodSandboxRequest {
            config: Some(sandbox_config(rng)),
            ..Default::default()
        }
        .encode_to_vec(),
        Rpc::CreateContainer => v1::CreateContainerRequest {
            pod_sandbox_id: sandbox,
            config: Some(v1::ContainerConfig {
                metadata: Some(v1::ContainerMetadata {
                    name: "a".to_owned(),
                    attempt: rng.u32(0..3),
                }),
                ..Default::default()
            }),
            sandbox_config: Some(sandbox_config(rng)),
        }
        .encode_to_vec(),
        Rpc::ListContainers | Rpc::StreamContainers if rng.bool() => v1::ListContainersRequest {
            filter: Some(v1::ContainerFilter {
                pod_sandbox_id: sandbox,
                ..Default::default()
            }),
        }
        .encode_to_vec(),
        _ => match rpc.subject() {
            cri::Subject::Node => Vec::new(),
            cri::Subject::Sandbox => v1::PodSandboxStatusRequest {
                pod_sandbox_id: sandbox,
                verbose: false,
            }
            .encode_to_vec(),
            cri::Subject::Container => v1::ContainerStatusRequest {
                container_id: container,
                verbose: false,
            }
            .encode_to_vec(),
        },
    }
}

/// The clocks of both runtimes are paused.
/// Enforces G1.
#[tokio::test(start_paused = true)]
async fn a_sequence_of_random_calls_has_the_same_answers_with_and_without_the_guard() {
    let mut twins = Twins::start().await;
    let mut rng = Rng::with_seed(11);
    // A stream of events has no end.
    let calls = Rpc::ALL.iter().copied();
    let calls: Vec<Rpc> = calls
        .filter(|rpc| *rpc != Rpc::GetContainerEvents)
        .collect();
    let mut succeeded = 0;
    for _ in 0..CALLS {
        let rpc = rng.choice(&calls).copied().unwrap();
        let seen = twins.call(rpc, &message(&mut rng, rpc)).await;
        succeeded += usize::from(seen.code().as_deref() == Some("0"));
    }
    assert!(
        succeeded > CALLS / 3,
        "{succeeded} of {CALLS} calls succeeded"
    );
    let nonsense = Bytes::from_static(&[0xff; 9]);
    for rpc in calls {
        twins.call(rpc, &nonsense).await;
    }
}
