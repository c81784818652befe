//! Units, runtimes and processes that do not run or do not answer.

use analyze::kind::Kind;

use crate::read::{causes, text};
use crate::{healthy, output};

#[test]
fn a_unit_that_is_down_is_named() {
    for (unit, active) in [
        ("docker", "failed (Result: start-limit)"),
        ("containerd", "inactive (dead)"),
        ("crio", "activating (auto-restart) (Result: exit-code)"),
    ] {
        let page = format!(
            "$ sudo systemctl status {unit}\n● {unit}.service - a runtime\n     Loaded: loaded (/lib/systemd/system/{unit}.service; enabled)\n     Active: {active} since Mon 2023-06-05 10:00:00 UTC; 3s ago\n"
        );
        output(Kind::ToolOutput, &["runtime-unresponsive"], &page);
        let found = text(&page);
        let named = found.findings[0].culprit.unit.as_deref();
        assert_eq!(named, Some(format!("{unit}.service").as_str()));
    }
    healthy(
        "● docker.service - Docker Application Container Engine\n   Loaded: loaded (/lib/systemd/system/docker.service; enabled)\n   Active: active (running) since Mon 2023-06-05 10:00:00 UTC; 3s ago\n    Tasks: 34 (limit: 4915)\n",
    );
}

#[test]
fn a_unit_at_its_limit_of_tasks_is_named_if_the_node_needs_it() {
    let page = |unit: &str| {
        format!(
            "● {unit}.service - a service\n   Active: active (running) since Mon 2023-06-05 10:00:00 UTC; 3s ago\n    Tasks: 4914 (limit: 4915)\n"
        )
    };
    let found = text(page("containerd"));
    assert_eq!(causes(&found), ["pids-exhausted"]);
    let named = found.findings[0].culprit.unit.as_deref();
    assert_eq!(named, Some("containerd.service"));
    healthy(&page("mysql"));
}

#[test]
fn an_interrupted_command_shows_what_hangs() {
    let id = "d0f631ca1ddb";
    let found = text(format!(
        "[root@n1 ~]# docker inspect {id}\n^C\n[root@n1 ~]# docker ps\nCONTAINER ID   IMAGE   COMMAND\n"
    ));
    assert_eq!(causes(&found), ["container-lock"]);
    assert_eq!(found.findings[0].culprit.id.as_deref(), Some(id));
    let found = text("root@n1:~# crictl pods\n^C\n");
    assert_eq!(causes(&found), ["runtime-unresponsive"]);
}

#[test]
fn a_tool_that_cannot_connect_accuses_the_runtime_unless_permission_is_denied() {
    output(
        Kind::ToolOutput,
        &["runtime-unresponsive"],
        "FATA[0002] validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused\"\n",
    );
    output(
        Kind::ToolOutput,
        &["runtime-unresponsive"],
        "$ docker ps\nCannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
    );
    output(
        Kind::ToolOutput,
        &["runtime-unresponsive"],
        "ctr: failed to dial \"/run/containerd/containerd.sock\": context deadline exceeded\n",
    );
    healthy(
        "$ crictl ps\nFATA[0000] validate service connection: dial unix /run/containerd/containerd.sock: connect: permission denied\n",
    );
}

#[test]
fn a_stopped_process_and_a_call_that_timed_out_show_causes() {
    output(
        Kind::ToolOutput,
        &["shim-unresponsive"],
        "Name:\tcontainerd-shim\nUmask:\t0022\nState:\tT (stopped)\nTgid:\t4242\n",
    );
    output(
        Kind::ToolOutput,
        &["bus-unavailable"],
        "root@n1:~# busctl status org.freedesktop.systemd1\nFailed to get properties: Connection timed out\n",
    );
}
