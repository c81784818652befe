//! Converts a `v1.Pod`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use pleg::model::id::PodUid;

use super::metadata::{self, Metadata};
use super::problem::At;
use super::security;
use super::{NEEDS_API_SERVER, has_items, has_text};
use super::{container, names, ports, volumes};
use crate::spec::{ContainerSpec, Dns, Network, PodSpec, RestartPolicy, Role};

/// The longest host name that the kernel accepts.
const MAX_HOSTNAME_LEN: usize = 63;

/// The specification of a pod. It can be used only if nothing was reported to `at`.
pub(super) fn spec(pod: v1::Pod, uid: PodUid, file: &Arc<str>, node: &str, at: &At<'_>) -> PodSpec {
    let v1::Pod {
        metadata,
        spec,
        status: _,
    } = pod;
    let Metadata {
        pod,
        labels,
        annotations,
    } = metadata::read(metadata, uid, &at.field("metadata"));
    let at = at.field("spec");
    let is_given = spec.is_some();
    if !is_given {
        at.required();
    }
    let v1::PodSpec {
        active_deadline_seconds,
        affinity,
        automount_service_account_token,
        containers,
        dns_config,
        dns_policy,
        enable_service_links: _,
        ephemeral_containers,
        host_aliases,
        host_ipc,
        host_network,
        host_pid,
        host_users,
        hostname,
        image_pull_secrets,
        init_containers,
        node_name,
        node_selector,
        os,
        overhead,
        preemption_policy: _,
        priority: _,
        priority_class_name,
        readiness_gates,
        resource_claims,
        resources,
        restart_policy,
        runtime_class_name,
        scheduler_name: _,
        scheduling_gates,
        security_context,
        service_account,
        service_account_name,
        set_hostname_as_fqdn,
        share_process_namespace,
        subdomain,
        termination_grace_period_seconds,
        tolerations: _,
        topology_spread_constraints: _,
        volumes,
    } = spec.unwrap_or_default();

    for (field, is_set) in [
        ("imagePullSecrets", has_items(&image_pull_secrets)),
        ("readinessGates", has_items(&readiness_gates)),
        ("resourceClaims", has_items(&resource_claims)),
        ("runtimeClassName", has_text(&runtime_class_name)),
        ("schedulingGates", has_items(&scheduling_gates)),
        ("serviceAccount", has_text(&service_account)),
        ("serviceAccountName", has_text(&service_account_name)),
    ] {
        at.refuse(field, is_set, NEEDS_API_SERVER);
    }
    let mounts_token = automount_service_account_token == Some(true);
    at.refuse(
        "automountServiceAccountToken",
        mounts_token,
        NEEDS_API_SERVER,
    );
    for (field, is_set) in [
        ("activeDeadlineSeconds", active_deadline_seconds.is_some()),
        ("ephemeralContainers", has_items(&ephemeral_containers)),
        ("hostAliases", has_items(&host_aliases)),
        ("hostIPC", host_ipc == Some(true)),
        ("hostPID", host_pid == Some(true)),
        ("hostUsers", host_users == Some(false)),
        ("overhead", overhead.is_some_and(|it| !it.is_empty())),
        ("setHostnameAsFQDN", set_hostname_as_fqdn == Some(true)),
    ] {
        at.refuse(field, is_set, "");
    }
    let shares_processes = share_process_namespace == Some(true);
    at.refuse("shareProcessNamespace", shares_processes, "");
    let has_resources = resources.is_some();
    at.refuse(
        "resources",
        has_resources,
        "only containers can have resources",
    );
    at.refuse(
        "subdomain",
        has_text(&subdomain),
        "there is no cluster's DNS",
    );
    if let Some(v1::PodOS { name }) = os
        && name != "linux"
    {
        at.field("os").field("name").unsupported("only linux is");
    }
    check_placement(affinity, node_name, node_selector, node, &at);

    let on_host = host_network == Some(true);
    let security = security::pod(security_context, &at.field("securityContext"));
    let volumes = volumes::read(volumes.unwrap_or_default(), &at.field("volumes"));
    let containers = read_containers(
        init_containers.unwrap_or_default(),
        containers,
        &container::Pod {
            on_host,
            volumes: &volumes,
            security: &security,
        },
        is_given,
        &at,
    );
    ports::check_host_ports(&containers, &at);

    PodSpec {
        network: network(on_host, hostname, &pod.name, &at.field("hostname")),
        pod,
        file: file.clone(),
        labels,
        annotations,
        restart_policy: at.field("restartPolicy").one_of(
            restart_policy.as_deref(),
            RestartPolicy::Always,
            &[
                ("Always", RestartPolicy::Always),
                ("OnFailure", RestartPolicy::OnFailure),
                ("Never", RestartPolicy::Never),
            ],
        ),
        grace_period: grace_period(
            termination_grace_period_seconds,
            &at.field("terminationGracePeriodSeconds"),
        ),
        node_critical: priority_class_name.as_deref() == Some("system-node-critical"),
        dns: dns(dns_policy, dns_config, &at),
        security,
        volumes,
        containers,
    }
}

/// Checks that the pod can run on this node, as a kubelet does.
fn check_placement(
    affinity: Option<v1::Affinity>,
    node_name: Option<String>,
    node_selector: Option<BTreeMap<String, String>>,
    node: &str,
    at: &At<'_>,
) {
    if let Some(v1::Affinity {
        node_affinity,
        pod_affinity: _,
        pod_anti_affinity: _,
    }) = affinity
        && let Some(v1::NodeAffinity {
            preferred_during_scheduling_ignored_during_execution: _,
            required_during_scheduling_ignored_during_execution: required,
        }) = node_affinity
    {
        at.field("affinity").field("nodeAffinity").refuse(
            "requiredDuringSchedulingIgnoredDuringExecution",
            required.is_some(),
            "the node has no labels without an API server",
        );
    }
    let is_here = |value: &str, here: &str, at: At<'_>| {
        if value != here {
            at.invalid(format!("{value:?} is not this node's, which is {here:?}"));
        }
    };
    if let Some(name) = node_name.filter(|it| !it.is_empty()) {
        is_here(&name, node, at.field("nodeName"));
    }
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    for (key, value) in node_selector.unwrap_or_default() {
        let at = at.field("nodeSelector").key(&key);
        match key.as_str() {
            "kubernetes.io/hostname" => is_here(&value, node, at),
            "kubernetes.io/os" => is_here(&value, "linux", at),
            "kubernetes.io/arch" => is_here(&value, architecture, at),
            _ => at.unsupported("the node has no such label without an API server"),
        }
    }
}

fn network(on_host: bool, hostname: Option<String>, pod: &str, at: &At<'_>) -> Network {
    let hostname = hostname.filter(|it| !it.is_empty());
    if let Some(hostname) = &hostname {
        at.check(names::dns_label(hostname));
    }
    if on_host {
        if hostname.is_some() {
            at.unsupported("a pod in the host's network has the host's name");
        }
        return Network::Host;
    }
    let hostname = hostname.unwrap_or_else(|| {
        // Cut the name to the length of a host name, without a dot or hyphen at the end.
        let short = pod.get(..MAX_HOSTNAME_LEN).unwrap_or(pod);
        short.trim_end_matches(['-', '.']).to_owned()
    });
    Network::Pod { hostname }
}

fn grace_period(seconds: Option<i64>, at: &At<'_>) -> Duration {
    let seconds = seconds.unwrap_or(30);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_else(|_| {
        at.invalid(format!("{seconds} is negative"));
        0
    }))
}

fn dns(policy: Option<String>, config: Option<v1::PodDNSConfig>, at: &At<'_>) -> Option<Dns> {
    let is_own = at.field("dnsPolicy").one_of(
        policy.as_deref(),
        false,
        &[
            ("ClusterFirst", false),
            ("ClusterFirstWithHostNet", false),
            ("Default", false),
            ("None", true),
        ],
    );
    let at = at.field("dnsConfig");
    let is_given = config.is_some();
    let v1::PodDNSConfig {
        nameservers,
        options,
        searches,
    } = config.unwrap_or_default();
    let servers = nameservers.unwrap_or_default();
    if !is_own {
        let has_any = !servers.is_empty() || has_items(&searches) || has_items(&options);
        if is_given && has_any {
            at.unsupported("only with dnsPolicy: None");
        }
        return None;
    }
    let at_servers = at.field("nameservers");
    if servers.is_empty() {
        at_servers.invalid("required with dnsPolicy: None");
    }
    if servers.len() > 3 {
        at_servers.invalid("more than 3");
    }
    for (i, server) in servers.iter().enumerate() {
        at_servers.index(i).check(names::ip_address(server));
    }
    let options = options.unwrap_or_default().into_iter().enumerate();
    let options = options.filter_map(|(i, v1::PodDNSConfigOption { name, value })| {
        let Some(name) = name.filter(|it| !it.is_empty()) else {
            at.field("options").index(i).field("name").required();
            return None;
        };
        Some(match value.filter(|it| !it.is_empty()) {
            Some(value) => format!("{name}:{value}"),
            None => name,
        })
    });
    Some(Dns {
        servers,
        searches: searches.unwrap_or_default(),
        options: options.collect(),
    })
}

fn read_containers(
    init: Vec<v1::Container>,
    containers: Vec<v1::Container>,
    pod: &container::Pod<'_>,
    is_given: bool,
    at: &At<'_>,
) -> Vec<ContainerSpec> {
    if is_given && containers.is_empty() {
        at.field("containers").required();
    }
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for (field, role, list) in [
        ("initContainers", Role::Init, init),
        ("containers", Role::Container, containers),
    ] {
        for (i, it) in list.into_iter().enumerate() {
            let at = at.field(field).index(i);
            let spec = container::read(it, role, pod, &at);
            if !spec.name.is_empty() && !names.insert(spec.name.clone()) {
                let name = &spec.name;
                at.field("name")
                    .invalid(format!("another container has the name {name:?}"));
            }
            all.push(spec);
        }
    }
    all
}
