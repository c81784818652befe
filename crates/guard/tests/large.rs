//! A node of thousands: every list is answered, although not every id can be confirmed within a
//! second.

use std::time::Duration;

use bytes::Bytes;
use cri::{Rpc, v1};
use guard::core::{Action, AskId, CallId, Caller, Guard, Input, Mode, Outcome, Reply, Settings};
use prost::Message;
use tokio::time::Instant;

const SANDBOXES: usize = 2000;
const CONTAINERS: usize = 4000;

/// Both lists hang, and one container; all other statuses are answered at once.
struct Node {
    guard: Guard,
    now: Instant,
    hangs: bool,
    answers: Vec<(AskId, Outcome)>,
    replies: Vec<(CallId, Reply)>,
}

fn sandbox_id(number: usize) -> String {
    format!("{number:063x}a")
}

fn container_id(number: usize) -> String {
    format!("{number:063x}b")
}

fn message(message: &impl Message) -> Outcome {
    Outcome::Messages(vec![message.encode_to_vec().into()])
}

impl Node {
    fn new() -> Self {
        let now = Instant::now();
        let mut node = Self {
            guard: Guard::new(Settings::default(), Mode::Guard, now, 0),
            now,
            hangs: false,
            answers: Vec::new(),
            replies: Vec::new(),
        };
        node.step(Input::Time);
        node.pass(Duration::from_secs(3));
        node.hangs = true;
        node
    }

    fn answer(&self, rpc: Rpc, request: &Bytes) -> Option<Outcome> {
        let read = v1::ContainerStatusRequest::decode(request.clone());
        let id = read.map(|read| read.container_id).unwrap_or_default();
        match rpc {
            Rpc::ListPodSandbox | Rpc::ListContainers if self.hangs => None,
            Rpc::ListPodSandbox => Some(message(&v1::ListPodSandboxResponse {
                items: (0..SANDBOXES)
                    .map(|number| v1::PodSandbox {
                        id: sandbox_id(number),
                        ..Default::default()
                    })
                    .collect(),
            })),
            Rpc::ListContainers => Some(message(&v1::ListContainersResponse {
                containers: (0..CONTAINERS)
                    .map(|number| v1::Container {
                        id: container_id(number),
                        pod_sandbox_id: sandbox_id(number / 2),
                        state: 1,
                        ..Default::default()
                    })
                    .collect(),
            })),
            Rpc::ContainerStatus if self.hangs && id == container_id(7) => None,
            Rpc::ContainerStatus => Some(message(&v1::ContainerStatusResponse {
                status: Some(v1::ContainerStatus {
                    id,
                    state: 1,
                    ..Default::default()
                }),
                ..Default::default()
            })),
            Rpc::PodSandboxStatus => Some(message(&v1::PodSandboxStatusResponse {
                status: Some(v1::PodSandboxStatus {
                    id,
                    ..Default::default()
                }),
                ..Default::default()
            })),
            _ => Some(Outcome::Messages(vec![Bytes::new()])),
        }
    }

    fn step(&mut self, input: Input) {
        for action in self.guard.step(input, self.now) {
            match action {
                Action::Ask(ask, rpc, request) => {
                    let answer = self.answer(rpc, &request);
                    self.answers.extend(answer.map(|answer| (ask, answer)));
                }
                Action::Reply(call, reply) => self.replies.push((call, reply)),
                Action::AskHost => self.answers.push((AskId(0), Outcome::Strange)),
                _ => {}
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(1);
            for (ask, answer) in std::mem::take(&mut self.answers) {
                self.step(match ask {
                    // The host cannot tell.
                    AskId(0) => Input::HostIds(None),
                    ask => Input::Answered(ask, answer),
                });
            }
            self.step(Input::Time);
        }
    }

    /// Asks for a list; gives how long it took, and how many were in it.
    fn list(&mut self, call: u64, rpc: Rpc) -> (Duration, usize) {
        let asked = self.now;
        self.step(Input::Called {
            call: CallId(call),
            rpc,
            request: Bytes::new(),
            from: Caller::Client,
            deadline: None,
        });
        while self.replies.is_empty() {
            self.pass(Duration::from_millis(1));
        }
        match self.replies.pop() {
            Some((_, Reply::Message(list))) => {
                let listed = match rpc {
                    Rpc::ListContainers => {
                        let list = v1::ListContainersResponse::decode(list).unwrap();
                        list.containers.len()
                    }
                    _ => v1::ListPodSandboxResponse::decode(list)
                        .unwrap()
                        .items
                        .len(),
                };
                (self.now - asked, listed)
            }
            other => panic!("after {:?}: {other:?}", self.now - asked),
        }
    }
}

#[test]
fn thousands_are_confirmed_kind_by_kind_and_no_kind_waits_for_ever() {
    let mut node = Node::new();
    for round in 0..5 {
        for (call, rpc, all) in [
            (2 * round, Rpc::ListPodSandbox, SANDBOXES),
            (2 * round + 1, Rpc::ListContainers, CONTAINERS),
        ] {
            let (took, listed) = node.list(call, rpc);
            assert_eq!(listed, all);
            assert!(took < Duration::from_secs(6), "{rpc} took {took:?}");
        }
        node.pass(Duration::from_millis(700));
    }
}
