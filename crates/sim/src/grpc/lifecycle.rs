//! Creates and ends sandboxes and containers over CRI, with the errors of containerd.

use std::net::IpAddr;
use std::sync::Arc;

use cri::v1;
use pleg::model::id::{Id, PodRef};
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::model::wall_time::WallTime;
use tonic::Status;

use crate::manner::Manner;
use crate::world::{Container, Given, Pod, Sandbox, World};

/// The exit code of a process that ends on SIGTERM.
const TERMINATED: i32 = 143;

/// Creates a sandbox, and its pod if there is none yet.
pub(super) fn run_sandbox(
    world: &mut World,
    request: v1::RunPodSandboxRequest,
    now: WallTime,
) -> Result<String, Status> {
    let config = request.config.unwrap_or_default();
    let sandbox_config = Some(config.clone());
    let on_host = is_on_host(&config);
    let metadata = config
        .metadata
        .ok_or_else(|| Status::invalid_argument("sandbox config must include metadata"))?;
    let attempt = metadata.attempt;
    let pod = PodRef {
        uid: metadata.uid.into(),
        namespace: metadata.namespace.into(),
        name: metadata.name.into(),
    };
    let key = key_for(world, &pod);
    let known = world.pods.get(&key);
    if known.is_some_and(|pod| pod.sandboxes.iter().any(|it| it.attempt == attempt)) {
        let name = format!("{}_{}_{}_{attempt}", pod.name, pod.namespace, pod.uid);
        return Err(reserved("sandbox", &name));
    }
    let given = Given {
        labels: config.labels.into_iter().collect(),
        annotations: config.annotations.into_iter().collect(),
        runtime_handler: request.runtime_handler,
        sandbox_config,
        ..Given::default()
    };
    let id = new_id(world, format!("{key}.{attempt}"));
    let address = IpAddr::from([10, 0, 0, (world.pods.len() % 250 + 1) as u8]);
    let pod = world.pods.entry(key).or_insert_with(|| Pod {
        pod,
        sandboxes: Vec::new(),
        containers: Vec::new(),
    });
    pod.sandboxes.push(Sandbox {
        id: id.clone(),
        state: SandboxState::Ready,
        attempt,
        created_at: now,
        ips: if on_host { Vec::new() } else { vec![address] },
        given: Some(Arc::new(given)),
    });
    Ok(id.to_string())
}

/// Creates a container without starting it.
pub(super) fn create_container(
    world: &mut World,
    request: v1::CreateContainerRequest,
    now: WallTime,
) -> Result<String, Status> {
    let sandbox_id = Id::from(request.pod_sandbox_id);
    let config = request.config.unwrap_or_default();
    let container_config = Some(config.clone());
    let metadata = config
        .metadata
        .ok_or_else(|| Status::invalid_argument("container config must include metadata"))?;
    let Some(pod) = world.pod_of_sandbox(sandbox_id.as_str()) else {
        let why = format!("failed to find sandbox id {:?}", sandbox_id.as_str());
        return Err(Status::not_found(why));
    };
    let mut containers = pod.containers.iter();
    let (name, attempt) = (metadata.name, metadata.attempt);
    if containers.any(|it| it.name == name && it.attempt == attempt && it.sandbox_id == sandbox_id)
    {
        return Err(reserved("container", &format!("{name}_{attempt}")));
    }
    let pod = pod.pod.clone();
    let key = key_for(world, &pod);
    let id = new_id(world, format!("{key}/{name}.{attempt}"));
    let given = Given {
        labels: config.labels.into_iter().collect(),
        annotations: config.annotations.into_iter().collect(),
        image: config.image.unwrap_or_default().image,
        log_path: config.log_path,
        container_config,
        ..Given::default()
    };
    if let Some(pod) = world.pod_of_sandbox(sandbox_id.as_str()) {
        pod.containers.push(Container {
            given: Some(Arc::new(given)),
            ..Container::new(id.clone(), sandbox_id, (&name, attempt), now)
        });
    }
    Ok(id.to_string())
}

/// Starts a container that was created.
pub(super) fn start_container(world: &mut World, id: &Id, now: WallTime) -> Result<(), Status> {
    let container = world.container_by_id_mut(id.as_str());
    let container = container.ok_or_else(|| Manner::Sim.no_container(id))?;
    if container.state != ContainerState::Created {
        let state = format!("{:?}", container.state).to_lowercase();
        return Err(Status::unknown(format!("container is {state}")));
    }
    container.start(now);
    Ok(())
}

/// Ends a running container. Does nothing if the container does not run or does not exist.
pub(super) fn stop_container(world: &mut World, id: &Id, now: WallTime) {
    if let Some(container) = world.container_by_id_mut(id.as_str())
        && container.state == ContainerState::Running
    {
        container.exit(TERMINATED, now);
    }
}

/// Runs a command in a running container: answers with the result that `World::commands` has for
/// it.
pub(super) fn exec(
    world: &World,
    id: &Id,
    command: Vec<String>,
) -> Result<v1::ExecSyncResponse, Status> {
    let container = existing(world, id)?;
    if container.state != ContainerState::Running {
        let state = format!("{:?}", container.state).to_uppercase();
        let why = format!("container is in CONTAINER_{state} state");
        return Err(Status::unknown(why));
    }
    let end = world.commands.get(&(container.name.clone(), command));
    let end = end.cloned().unwrap_or_default();
    Ok(v1::ExecSyncResponse {
        stdout: end.stdout.into(),
        stderr: end.stderr.into(),
        exit_code: end.exit_code,
    })
}

/// Changes nothing. Succeeds if the container is created or running.
pub(super) fn update(world: &World, id: &Id) -> Result<(), Status> {
    let container = existing(world, id)?;
    match container.state {
        ContainerState::Created | ContainerState::Running => Ok(()),
        _ => Err(Status::unknown("not in the created or running state")),
    }
}

/// Records that the log of a running container was reopened.
pub(super) fn reopen_log(world: &mut World, id: &Id) -> Result<(), Status> {
    let container = existing(world, id)?;
    if container.state != ContainerState::Running {
        return Err(Status::unknown("container is not running"));
    }
    world.reopened_logs.push(id.clone());
    Ok(())
}

fn existing<'a>(world: &'a World, id: &Id) -> Result<&'a Container, Status> {
    let found = world.container_by_id(id.as_str());
    let (_, container) = found.ok_or_else(|| Manner::Sim.no_container(id))?;
    Ok(container)
}

/// Whether a sandbox uses the network of the host, and so has no address.
fn is_on_host(config: &v1::PodSandboxConfig) -> bool {
    let linux = config.linux.as_ref();
    let security = linux.and_then(|linux| linux.security_context.as_ref());
    let namespaces = security.and_then(|security| security.namespace_options.as_ref());
    namespaces.is_some_and(|them| them.network() == v1::NamespaceMode::Node)
}

fn reserved(what: &str, name: &str) -> Status {
    let why = format!("failed to reserve {what} name {name:?}: it is taken");
    Status::already_exists(why)
}

/// The key in `World::pods` of an existing or new pod. Pods of several namespaces, and an old and a
/// new pod, can have the same name.
fn key_for(world: &World, pod: &PodRef) -> String {
    let names = [
        pod.name.to_string(),
        format!("{}/{}", pod.namespace, pod.name),
        format!("{}/{}/{}", pod.namespace, pod.name, pod.uid),
    ];
    let [.., last] = &names;
    let is_its = |name: &&String| world.pods.get(*name).is_some_and(|it| it.pod == *pod);
    let is_free = |name: &&String| !world.pods.contains_key(*name);
    let known = names.iter().find(is_its);
    let key = known.or_else(|| names.iter().find(is_free));
    key.unwrap_or(last).clone()
}

/// A readable id that was never used before.
fn new_id(world: &mut World, wanted: String) -> Id {
    let is_free = |world: &World, id: &str| {
        let given = world.given_ids.contains(id);
        !given && world.sandbox_by_id(id).is_none() && world.container_by_id(id).is_none()
    };
    let mut id = wanted.clone();
    let mut number = world.given_ids.len();
    while !is_free(world, &id) {
        id = format!("{wanted}-{number}");
        number += 1;
    }
    let id = Id::from(id);
    world.given_ids.insert(id.clone());
    id
}
