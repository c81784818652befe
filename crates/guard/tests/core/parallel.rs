//! A kubelet that creates several containers of one pod at once (KEP-6416).

use std::time::Duration;

use bytes::Bytes;
use cri::{Rpc, v1};
use guard::core::{
    Action, Call, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Reply, RuntimeCallId,
    Settings,
};
use prost::Message;
use tokio::time::Instant;

/// A runtime that creates containers but never answers `CreateContainer`.
struct Runtime {
    guard: Guard,
    now: Instant,
    made: Vec<String>,
    replies: Vec<(CallId, Option<String>)>,
}

fn config(name: &str) -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata {
            name: name.to_owned(),
            attempt: 0,
        }),
        ..Default::default()
    }
}

impl Runtime {
    fn new() -> Self {
        let now = Instant::now();
        let mut runtime = Self {
            guard: Guard::new(Settings::default(), Mode::Guard, now, 1),
            now,
            made: Vec::new(),
            replies: Vec::new(),
        };
        runtime.step(Input::Time);
        runtime
    }

    fn answer(&self, rpc: Rpc) -> Option<Vec<u8>> {
        match rpc {
            Rpc::ListPodSandbox => {
                let items = vec![v1::PodSandbox {
                    id: "pod".to_owned(),
                    ..Default::default()
                }];
                Some(v1::ListPodSandboxResponse { items }.encode_to_vec())
            }
            Rpc::ListContainers => {
                let made = self.made.iter().map(|name| v1::Container {
                    id: format!("id of {name}"),
                    pod_sandbox_id: "pod".to_owned(),
                    metadata: config(name).metadata,
                    ..Default::default()
                });
                let containers = made.collect();
                Some(v1::ListContainersResponse { containers }.encode_to_vec())
            }
            _ => None,
        }
    }

    fn step(&mut self, input: Input) {
        for action in self.guard.step(input, self.now) {
            match action {
                Action::Call(runtime_call, rpc, _) => {
                    if let Some(answer) = self.answer(rpc) {
                        self.answered(runtime_call, answer.into());
                    }
                }
                Action::ListHostIds => self.step(Input::HostIds(HostIds::Unavailable)),
                Action::Reply(call, Reply::Message(message)) => {
                    let made = v1::CreateContainerResponse::decode(message).unwrap();
                    self.replies.push((call, Some(made.container_id)));
                }
                Action::Reply(call, Reply::Failed(_)) => self.replies.push((call, None)),
                Action::Pass(..) | Action::Relay(..) | Action::Cancel(_) => {}
            }
        }
    }

    fn answered(&mut self, runtime_call: RuntimeCallId, message: Bytes) {
        let outcome = Outcome::Messages(vec![message]);
        self.step(Input::Answered(runtime_call, outcome));
    }

    fn create(&mut self, call: u64, name: &str) {
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: "pod".to_owned(),
            config: Some(config(name)),
            ..Default::default()
        };
        self.step(Input::Called(Call {
            id: CallId(call),
            rpc: Rpc::CreateContainer,
            request: request.encode_to_vec().into(),
            from: Caller::Client,
            deadline: None,
        }));
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(10);
            self.step(Input::Time);
        }
    }
}

#[test]
fn each_of_several_containers_that_are_created_at_once_gets_its_own_answer() {
    let mut runtime = Runtime::new();
    for (call, name) in [(1, "web"), (2, "proxy"), (3, "log")] {
        runtime.create(call, name);
    }
    // The runtime creates them in another order than they were requested, and never creates the third.
    runtime.made = vec!["proxy".to_owned(), "web".to_owned()];
    runtime.pass(Duration::from_secs(3));
    runtime.replies.sort_unstable();
    let id = |name: &str| Some(format!("id of {name}"));
    assert_eq!(
        runtime.replies,
        [(CallId(1), id("web")), (CallId(2), id("proxy"))]
    );
}

#[test]
fn an_overdue_container_refuses_its_own_second_creation_and_no_other_of_the_pod() {
    let mut runtime = Runtime::new();
    runtime.create(1, "web");
    runtime.pass(Duration::from_secs(10));
    runtime.create(2, "proxy");
    runtime.create(3, "web");
    assert_eq!(runtime.replies, [(CallId(3), None)]);
    runtime.made = vec!["proxy".to_owned()];
    runtime.pass(Duration::from_secs(3));
    let proxy = (CallId(2), Some("id of proxy".to_owned()));
    assert_eq!(runtime.replies, [(CallId(3), None), proxy]);
}
