//! The simulated node behind the library's trait, on tokio's clock.

use std::sync::Arc;

use futures_util::StreamExt;
use pleg::model::id::Id;
use pleg::model::listed::{ListedContainer, ListedSandbox};
use pleg::model::status::{ContainerStatus, SandboxStatus};
use pleg::model::wall_time::WallTime;
use pleg::runtime::{Announcements, CallError, Listing, Rpc, Runtime, RuntimeVersion};

use crate::Sim;
use crate::faults::{AnswerForm, Malformation, StatusOf};
use crate::world::{Container, Pod, Sandbox, World};

impl Sim {
    /// Counts a call and applies its faults, as a client observes them.
    async fn call(&self, call: Rpc, id: Option<&Id>) -> Result<StatusOf, CallError> {
        received(call, self.pass_faults(call, id).await?)
    }

    /// Counts a list call and applies its faults.
    async fn rows<R>(
        &self,
        call: Rpc,
        list: impl Fn(&World) -> Arc<[Arc<R>]>,
    ) -> Result<Listing<R>, CallError> {
        let (rows, form) = self.list(call, list).await?;
        received(call, form)?;
        Ok(Listing { rows, bytes: 0 })
    }
}

/// What a client receives from an answer of this form.
fn received(call: Rpc, form: AnswerForm) -> Result<StatusOf, CallError> {
    let what = match form {
        AnswerForm::Correct => return Ok(StatusOf::Requested),
        AnswerForm::Malformed(Malformation::OfAnother) => return Ok(StatusOf::Another),
        // The figures that a client on the socket reports.
        AnswerForm::Oversize => return Err(CallError::TooLarge("16777217 vs. 16777216".into())),
        AnswerForm::Malformed(Malformation::Garbage) => "failed to decode".to_owned(),
        AnswerForm::Malformed(Malformation::WithoutStatus) => format!("{call} without a status"),
    };
    Err(CallError::Malformed(what.into()))
}

impl Runtime for Sim {
    async fn version(&self) -> Result<RuntimeVersion, CallError> {
        self.call(Rpc::Version, None).await?;
        let (name, version) = self.manner().version();
        Ok(RuntimeVersion {
            name: name.into(),
            version: version.into(),
            api_version: "v1".into(),
        })
    }

    async fn list_sandboxes(&self) -> Result<Listing<ListedSandbox>, CallError> {
        self.rows(Rpc::ListPodSandbox, |world| {
            let rows = world.sandboxes();
            rows.map(|(pod, it)| Arc::new(listed_sandbox(pod, it)))
                .collect()
        })
        .await
    }

    async fn list_containers(&self) -> Result<Listing<ListedContainer>, CallError> {
        self.rows(Rpc::ListContainers, |world| {
            let rows = world.containers();
            rows.map(|(pod, it)| Arc::new(listed_container(pod, it)))
                .collect()
        })
        .await
    }

    async fn sandbox_status(&self, id: &Id) -> Result<SandboxStatus, CallError> {
        let of = self.call(Rpc::PodSandboxStatus, Some(id)).await?;
        let (world, now) = (self.world(), self.now());
        let found = world.sandbox_for(id, of);
        found
            .map(|(pod, sandbox)| SandboxStatus {
                containers: match self.settings().fills_sandboxes {
                    true => in_sandbox(pod, sandbox, now),
                    false => Vec::new(),
                },
                ..sandbox_status(pod, sandbox)
            })
            .ok_or_else(|| self.manner().no_sandbox(id).into())
    }

    async fn container_status(&self, id: &Id) -> Result<ContainerStatus, CallError> {
        let of = self.call(Rpc::ContainerStatus, Some(id)).await?;
        let (world, now) = (self.world(), self.now());
        let found = world.container_for(id, of);
        found
            .map(|(pod, container)| container_status(pod, container, now))
            .ok_or_else(|| self.manner().no_container(id).into())
    }

    async fn container_pid(&self, id: &Id) -> Result<Option<u32>, CallError> {
        self.call(Rpc::ContainerStatus, Some(id)).await?;
        Ok(self.pid(id).filter(|_| !self.settings().hides_pids))
    }

    async fn announcements(&self) -> Result<Announcements, CallError> {
        let events = self.read_stream().await?.stream();
        Ok(Box::pin(events.map(|event| Ok(event.announced()))))
    }
}

fn listed_sandbox(pod: &Pod, sandbox: &Sandbox) -> ListedSandbox {
    ListedSandbox {
        id: sandbox.id.clone(),
        pod: Some(pod.pod.clone()),
        state: sandbox.state,
        attempt: sandbox.attempt,
        created_at: Some(sandbox.created_at),
    }
}

fn listed_container(pod: &Pod, container: &Container) -> ListedContainer {
    ListedContainer {
        id: container.id.clone(),
        sandbox_id: container.sandbox_id.clone(),
        pod: Some(pod.pod.clone()),
        name: container.name.as_str().into(),
        state: container.listed(),
        attempt: container.attempt,
        created_at: Some(container.created_at),
    }
}

fn sandbox_status(pod: &Pod, sandbox: &Sandbox) -> SandboxStatus {
    SandboxStatus {
        id: sandbox.id.clone(),
        state: sandbox.state,
        attempt: sandbox.attempt,
        created_at: Some(sandbox.created_at),
        ips: sandbox.ips.clone(),
        pod: Some(pod.pod.clone().into()),
        containers: Vec::new(),
    }
}

fn in_sandbox(pod: &Pod, sandbox: &Sandbox, now: WallTime) -> Vec<ContainerStatus> {
    let containers = pod.containers.iter();
    let of_it = containers.filter(|container| container.sandbox_id == sandbox.id);
    of_it
        .map(|container| container_status(pod, container, now))
        .collect()
}

fn container_status(pod: &Pod, container: &Container, now: WallTime) -> ContainerStatus {
    let ended = container.reported_end(now);
    ContainerStatus {
        id: container.id.clone(),
        name: container.name.as_str().into(),
        state: container.state,
        attempt: container.attempt,
        exit_code: ended.map(|(_, code)| code),
        reason: ended.map(|(_, code)| reason(code).into()),
        created_at: Some(container.created_at),
        started_at: container.started_at,
        finished_at: ended.map(|(time, _)| time),
        image: container.image().into(),
        pod: Some(pod.pod.clone().into()),
    }
}

/// The reason that a runtime reports for an exit code.
pub(crate) fn reason(exit_code: i32) -> &'static str {
    if exit_code == 0 { "Completed" } else { "Error" }
}
