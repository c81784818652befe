//! Converts probes, and the `exec` handler that they share with `lifecycle`.

use std::time::Duration;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::problem::At;
use super::{names, ports};
use crate::spec::{Check, Port, Probe, ProbeKind, Probes, Scheme};

pub(super) fn read(
    startup: Option<v1::Probe>,
    liveness: Option<v1::Probe>,
    readiness: Option<v1::Probe>,
    ports: &[Port],
    at: &At<'_>,
) -> Probes {
    let read = |it: Option<v1::Probe>, field, kind| probe(it?, kind, ports, &at.field(field));
    Probes {
        startup: read(startup, "startupProbe", ProbeKind::Startup),
        liveness: read(liveness, "livenessProbe", ProbeKind::Liveness),
        readiness: read(readiness, "readinessProbe", ProbeKind::Readiness),
    }
}

fn probe(probe: v1::Probe, kind: ProbeKind, ports: &[Port], at: &At<'_>) -> Option<Probe> {
    let v1::Probe {
        exec,
        failure_threshold,
        grpc,
        http_get,
        initial_delay_seconds,
        period_seconds,
        success_threshold,
        tcp_socket,
        termination_grace_period_seconds,
        timeout_seconds,
    } = probe;
    let handlers = [
        exec.is_some(),
        http_get.is_some(),
        tcp_socket.is_some(),
        grpc.is_some(),
    ];
    at.refuse("grpc", grpc.is_some(), "");
    match handlers.iter().filter(|it| **it).count() {
        0 => at.invalid("has no handler: exec, httpGet or tcpSocket is expected"),
        1 => {}
        _ => at.invalid("has more than one handler"),
    }
    let number = |field, value, default| count(value, default, &at.field(field));
    let seconds = |field, value, default| Duration::from_secs(number(field, value, default).into());
    let initial_delay = seconds("initialDelaySeconds", initial_delay_seconds, 0);
    let period = seconds("periodSeconds", period_seconds, 10);
    let timeout = seconds("timeoutSeconds", timeout_seconds, 1);
    let success_threshold = number("successThreshold", success_threshold, 1);
    if kind != ProbeKind::Readiness && success_threshold != 1 {
        at.field("successThreshold")
            .invalid("must be 1, except in a readinessProbe");
    }
    let failure_threshold = number("failureThreshold", failure_threshold, 3);
    let at_grace = at.field("terminationGracePeriodSeconds");
    let grace_period = termination_grace_period_seconds.map(|seconds| {
        if kind == ProbeKind::Readiness {
            at_grace.invalid("a readinessProbe cannot have it");
        }
        let seconds = u64::try_from(seconds).unwrap_or(0);
        if seconds == 0 {
            at_grace.invalid("must be greater than 0");
        }
        Duration::from_secs(seconds)
    });
    let check = exec
        .map(|it| Check::Exec(command(it, &at.field("exec"))))
        .or_else(|| http_get.map(|it| http(it, ports, &at.field("httpGet"))))
        .or_else(|| tcp_socket.map(|it| tcp(it, ports, &at.field("tcpSocket"))))?;
    Some(Probe {
        check,
        initial_delay,
        period,
        timeout,
        success_threshold,
        failure_threshold,
        grace_period,
    })
}

/// A number for which 0 means the default.
fn count(value: Option<i32>, default: u32, at: &At<'_>) -> u32 {
    let value = value.unwrap_or(0);
    match u32::try_from(value) {
        Ok(0) => default,
        Ok(count) => count,
        Err(_) => {
            at.invalid(format!("{value} is negative"));
            default
        }
    }
}

/// The command of a handler.
pub(super) fn command(action: v1::ExecAction, at: &At<'_>) -> Vec<String> {
    let v1::ExecAction { command } = action;
    let command = command.unwrap_or_default();
    if command.is_empty() {
        at.field("command").required();
    }
    command
}

fn http(action: v1::HTTPGetAction, ports: &[Port], at: &At<'_>) -> Check {
    let v1::HTTPGetAction {
        host,
        http_headers,
        path,
        port,
        scheme,
    } = action;
    let path = path.unwrap_or_default();
    let path = match path.starts_with('/') {
        true => path,
        false => format!("/{path}"),
    };
    let headers = http_headers.unwrap_or_default().into_iter().enumerate();
    let headers = headers.map(|(i, v1::HTTPHeader { name, value })| {
        let at = at.field("httpHeaders").index(i);
        at.field("name").check(names::header(&name));
        if value.contains(['\r', '\n', '\0']) {
            at.field("value").invalid("contains the end of a line");
        }
        (name, value)
    });
    Check::Http {
        scheme: at.field("scheme").one_of(
            scheme.as_deref(),
            Scheme::Http,
            &[("HTTP", Scheme::Http), ("HTTPS", Scheme::Https)],
        ),
        host: host.filter(|it| !it.is_empty()),
        port: port_number(port, ports, &at.field("port")),
        path,
        headers: headers.collect(),
    }
}

fn tcp(action: v1::TCPSocketAction, ports: &[Port], at: &At<'_>) -> Check {
    let v1::TCPSocketAction { host, port } = action;
    Check::Tcp {
        host: host.filter(|it| !it.is_empty()),
        port: port_number(port, ports, &at.field("port")),
    }
}

fn port_number(port: IntOrString, ports: &[Port], at: &At<'_>) -> u16 {
    match port {
        IntOrString::Int(number) => ports::number(number, at),
        IntOrString::String(name) => {
            let named = ports.iter().find(|it| it.name.as_deref() == Some(&name));
            if named.is_none() {
                at.invalid(format!("no port of this container has the name {name:?}"));
            }
            named.map_or(1, |it| it.container_port)
        }
    }
}
