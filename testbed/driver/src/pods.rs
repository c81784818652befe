//! Runs, lists, stops and removes pods.

use std::collections::HashMap;

use cri::Rpc;
use cri::v1::{
    ListContainersRequest, ListContainersResponse, ListPodSandboxRequest, ListPodSandboxResponse,
    PodSandboxFilter, PodSandboxMetadata, PodSandboxState, RemovePodSandboxRequest,
    RemovePodSandboxResponse, RunPodSandboxRequest, RunPodSandboxResponse, StopPodSandboxRequest,
    StopPodSandboxResponse,
};

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::kubelet;
use crate::spec::{Container, ContainerSpec, Pod, PodSpec};

impl Driver {
    /// Runs a sandbox and, one after the other, its containers. If one fails, the sandbox and the
    /// containers before it stay.
    pub async fn run_pod(&self, spec: &PodSpec) -> Result<Pod> {
        let metadata = PodSandboxMetadata {
            name: spec.name.clone(),
            uid: spec.uid.clone().unwrap_or_else(kubelet::new_uid),
            namespace: spec.namespace.clone(),
            attempt: spec.attempt,
        };
        let cgroup = self.cgroup(&metadata.uid);
        let request = RunPodSandboxRequest {
            config: Some(kubelet::sandbox_config(
                metadata.clone(),
                spec.network,
                cgroup,
            )),
            runtime_handler: String::new(),
        };
        let about = format!("the pod {:?}", spec.name);
        let answer: RunPodSandboxResponse = self.call(Rpc::RunPodSandbox, &about, request).await?;
        let mut pod = pod(metadata, answer.pod_sandbox_id, true);
        for container in &spec.containers {
            let container = ContainerSpec {
                network: spec.network,
                // Containers of the previous sandbox still have the names with lower attempts.
                attempt: container.attempt.max(spec.attempt),
                ..container.clone()
            };
            let running = self.run_container(&pod, &container).await?;
            pod.containers.push(running);
        }
        Ok(pod)
    }

    /// The driver's pods with all their containers, ordered by namespace, name and attempt.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        self.pods_with(kubelet::LABEL).await
    }

    /// The pods with this label, of all clients, ordered by namespace, name and attempt.
    pub async fn pods_with(&self, label: (&str, &str)) -> Result<Vec<Pod>> {
        let mut pods = self.sandboxes_with(label).await?;
        let request = ListContainersRequest { filter: None };
        let answer: ListContainersResponse = self.call(Rpc::ListContainers, "", request).await?;
        let mut containers = HashMap::<String, Vec<Container>>::new();
        for listed in answer.containers {
            let state = listed.state();
            let metadata = listed.metadata.unwrap_or_default();
            containers
                .entry(listed.pod_sandbox_id)
                .or_default()
                .push(Container {
                    name: metadata.name,
                    id: listed.id,
                    attempt: metadata.attempt,
                    state,
                });
        }
        for pod in &mut pods {
            pod.containers = containers.remove(&pod.sandbox_id).unwrap_or_default();
            pod.containers
                .sort_by(|a, b| (&a.name, a.attempt).cmp(&(&b.name, b.attempt)));
        }
        Ok(pods)
    }

    /// The driver's pods without their containers. This works while ListContainers is stuck.
    pub async fn sandboxes(&self) -> Result<Vec<Pod>> {
        self.sandboxes_with(kubelet::LABEL).await
    }

    async fn sandboxes_with(&self, label: (&str, &str)) -> Result<Vec<Pod>> {
        let filter = PodSandboxFilter {
            label_selector: HashMap::from([(label.0.into(), label.1.into())]),
            ..PodSandboxFilter::default()
        };
        let request = ListPodSandboxRequest {
            filter: Some(filter),
        };
        let answer: ListPodSandboxResponse = self.call(Rpc::ListPodSandbox, "", request).await?;
        let mut pods: Vec<_> = answer
            .items
            .into_iter()
            .map(|item| {
                let ready = item.state() == PodSandboxState::SandboxReady;
                pod(item.metadata.unwrap_or_default(), item.id, ready)
            })
            .collect();
        pods.sort_by(|a, b| {
            (&a.namespace, &a.name, a.attempt).cmp(&(&b.namespace, &b.name, b.attempt))
        });
        Ok(pods)
    }

    /// The newest sandbox of the pod `NAME` or `NAMESPACE/NAME`, with its containers.
    pub async fn pod(&self, name: &str) -> Result<Pod> {
        newest(self.pods().await?, name)
    }

    /// Stops a sandbox and its containers. The runtime kills containers that still run.
    pub async fn stop_pod(&self, pod: &Pod) -> Result<()> {
        let pod_sandbox_id = pod.sandbox_id.clone();
        let about = format!("the pod {:?}", pod.name);
        let request = StopPodSandboxRequest { pod_sandbox_id };
        let _: StopPodSandboxResponse = self.call(Rpc::StopPodSandbox, &about, request).await?;
        Ok(())
    }

    /// Stops and removes a sandbox, and its containers with it.
    pub async fn remove_pod(&self, pod: &Pod) -> Result<()> {
        self.stop_pod(pod).await?;
        let pod_sandbox_id = pod.sandbox_id.clone();
        let about = format!("the pod {:?}", pod.name);
        let request = RemovePodSandboxRequest { pod_sandbox_id };
        let _: RemovePodSandboxResponse = self.call(Rpc::RemovePodSandbox, &about, request).await?;
        Ok(())
    }
}

pub(crate) fn newest(pods: Vec<Pod>, name: &str) -> Result<Pod> {
    pods.into_iter()
        .filter(|pod| pod.is(name))
        .max_by_key(|pod| pod.attempt)
        .ok_or_else(|| Error::NoPod(name.into()))
}

fn pod(metadata: PodSandboxMetadata, sandbox_id: String, ready: bool) -> Pod {
    Pod {
        uid: metadata.uid,
        namespace: metadata.namespace,
        name: metadata.name,
        attempt: metadata.attempt,
        sandbox_id,
        ready,
        containers: Vec::new(),
    }
}
