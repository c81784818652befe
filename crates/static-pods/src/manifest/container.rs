//! Converts a `v1.Container`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::problem::At;
use super::security;
use super::{NEEDS_API_SERVER, has_items, has_text};
use super::{env, names, ports, probes, resources, volumes};
use crate::runtime::with_tag;
use crate::spec::{ContainerSpec, PodSecurity, PullPolicy, Role, Volume};

/// What the conversion of a container needs to know about its pod.
pub(super) struct Pod<'a> {
    pub(super) on_host: bool,
    pub(super) volumes: &'a BTreeMap<String, Volume>,
    pub(super) security: &'a PodSecurity,
}

pub(super) fn read(
    container: v1::Container,
    role: Role,
    pod: &Pod<'_>,
    at: &At<'_>,
) -> ContainerSpec {
    let v1::Container {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy: _,
        resources,
        restart_policy,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    } = container;

    at.refuse("envFrom", has_items(&env_from), NEEDS_API_SERVER);
    at.refuse("volumeDevices", has_items(&volume_devices), "");
    at.refuse("stdinOnce", stdin_once == Some(true), "");
    let default_path = "/dev/termination-log";
    let has_own_path =
        termination_message_path.is_some_and(|it| !it.is_empty() && it != default_path);
    at.refuse(
        "terminationMessagePath",
        has_own_path,
        "only /dev/termination-log is",
    );
    at.field("terminationMessagePolicy").one_of(
        termination_message_policy.as_deref(),
        (),
        &[("File", ()), ("FallbackToLogsOnError", ())],
    );

    at.field("name").check_text(&name, names::dns_label);
    let role = role_of(role, restart_policy, &at.field("restartPolicy"));
    let image = read_image(image, &at.field("image"));
    let working_dir = working_dir.filter(|it| !it.is_empty());
    if let Some(path) = &working_dir {
        at.field("workingDir").check(names::absolute_path(path));
    }
    if role == Role::Init {
        for (field, is_set) in [
            ("lifecycle", lifecycle.is_some()),
            ("livenessProbe", liveness_probe.is_some()),
            ("readinessProbe", readiness_probe.is_some()),
            ("startupProbe", startup_probe.is_some()),
        ] {
            if is_set {
                at.field(field)
                    .invalid("an init container without restartPolicy: Always cannot have it");
            }
        }
    }
    let ports = ports::read(ports.unwrap_or_default(), pod.on_host, &at.field("ports"));
    ContainerSpec {
        role,
        pull_policy: pull_policy(image_pull_policy, &image, &at.field("imagePullPolicy")),
        command: command.unwrap_or_default(),
        args: args.unwrap_or_default(),
        working_dir,
        env: env::read(env.unwrap_or_default(), &at.field("env")),
        mounts: volumes::mounts(
            volume_mounts.unwrap_or_default(),
            pod.volumes,
            &at.field("volumeMounts"),
        ),
        resources: resources::read(resources.unwrap_or_default(), &at.field("resources")),
        security: security::container(
            security_context.unwrap_or_default(),
            pod.security,
            &at.field("securityContext"),
        ),
        probes: probes::read(startup_probe, liveness_probe, readiness_probe, &ports, at),
        pre_stop: pre_stop(lifecycle.unwrap_or_default(), &at.field("lifecycle")),
        stdin: stdin == Some(true),
        tty: tty == Some(true),
        ports,
        name,
        image,
    }
}

/// The role of a container. Only an init container can have a restart policy of its own, which
/// makes it a sidecar.
fn role_of(role: Role, restart_policy: Option<String>, at: &At<'_>) -> Role {
    let Some(policy) = restart_policy.filter(|it| !it.is_empty()) else {
        return role;
    };
    if role == Role::Container {
        at.invalid("only an init container can have it");
        return role;
    }
    at.one_of(Some(&policy), (), &[("Always", ())]);
    Role::Sidecar
}

fn read_image(image: Option<String>, at: &At<'_>) -> String {
    let image = image.unwrap_or_default();
    if image.is_empty() {
        at.required();
    } else if image.contains(char::is_whitespace) {
        at.invalid(format!("{image:?} contains white space"));
    }
    image
}

fn pull_policy(policy: Option<String>, image: &str, at: &At<'_>) -> PullPolicy {
    let default = match is_latest(image) {
        true => PullPolicy::Always,
        false => PullPolicy::IfNotPresent,
    };
    at.one_of(
        policy.as_deref(),
        default,
        &[
            ("Always", PullPolicy::Always),
            ("IfNotPresent", PullPolicy::IfNotPresent),
            ("Never", PullPolicy::Never),
        ],
    )
}

/// Whether the image has the tag `latest`, or neither a tag nor a digest.
fn is_latest(image: &str) -> bool {
    let image = with_tag(image);
    let name = image.split_once('@').map_or(&*image, |(name, _)| name);
    name.ends_with(":latest")
}

fn pre_stop(lifecycle: v1::Lifecycle, at: &At<'_>) -> Option<Vec<String>> {
    let v1::Lifecycle {
        post_start,
        pre_stop,
        stop_signal,
    } = lifecycle;
    at.refuse("postStart", post_start.is_some(), "");
    at.refuse("stopSignal", has_text(&stop_signal), "the image's is sent");
    let v1::LifecycleHandler {
        exec,
        http_get,
        sleep,
        tcp_socket,
    } = pre_stop?;
    let at = at.field("preStop");
    let mut handlers = 0;
    for (field, is_set) in [
        ("httpGet", http_get.is_some()),
        ("sleep", sleep.is_some()),
        ("tcpSocket", tcp_socket.is_some()),
    ] {
        at.refuse(field, is_set, "only exec is");
        handlers += usize::from(is_set);
    }
    match exec {
        Some(_) if handlers > 0 => at.invalid("has more than one handler"),
        None if handlers == 0 => at.invalid("has no handler: exec is expected"),
        _ => {}
    }
    Some(probes::command(exec?, &at.field("exec")))
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn an_image_without_tag_and_digest_has_the_tag_latest() {
        for (image, expected) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:1", false),
            ("nginx@sha256:0123", false),
            ("nginx:latest@sha256:0123", true),
            ("registry.k8s.io/pause:3.10", false),
        ] {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }
}
