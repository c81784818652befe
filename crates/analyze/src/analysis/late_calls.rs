//! What timed-out calls show: which method hangs, and for which containers, as when probing a
//! live runtime.

use causes::Cause;
use causes::finding::Confidence;

use super::Told;
use super::calls::{Calls, Late, Method};

pub(super) fn conclude(told: &mut Told) {
    use Confidence::{Low, Medium};
    let Told {
        calls,
        collected,
        lateness,
        around,
        ..
    } = told;
    let starved = lateness.is_some() || collected.has(Cause::DiskSaturated);
    let mut add = |method: Method, cause: Cause, confidence: Confidence, says: &str| {
        let Some(late) = calls.late.get(&method) else {
            return;
        };
        collected.add(
            cause,
            confidence,
            format!("{}: {says}", lines(late)),
            late.most().cloned().unwrap_or_default(),
        );
        for quote in &late.quotes {
            collected.also(cause, quote.to_string());
        }
        let id = late.most().and_then(|culprit| culprit.id.as_deref());
        let id = id
            .filter(|_| late.whom.len() == 1)
            .and_then(|id| id.get(..13));
        let call = matches!(method, Method::ContainerStatus).then_some("ContainerStatus");
        let headline = call.zip(id);
        let headline =
            headline.map(|(call, id)| format!("{call} of container {id} is not answered in time"));
        collected.head(cause, confidence, headline);
    };
    let count = |calls: &Calls, method| calls.lines(method);
    let (lists, sandboxes) = (
        count(calls, Method::ListContainers),
        count(calls, Method::ListPodSandbox),
    );
    // A lock that one container has holds up no status of the runtime itself.
    let is_down = around.runtime_down;
    if lists > 0 && sandboxes == 0 && is_down {
        add(
            Method::ListContainers,
            Cause::RuntimeUnresponsive,
            Medium,
            "ListContainers times out, and the kubelet says that the runtime is down",
        );
    } else if lists > 0 && sandboxes == 0 && !starved {
        let confidence = if lists > 1 { Medium } else { Low };
        add(
            Method::ListContainers,
            Cause::ContainerStatusLock,
            confidence,
            "ListContainers times out, but ListPodSandbox does not",
        );
    } else if sandboxes > 0 && !starved {
        add(
            Method::ListPodSandbox,
            Cause::RuntimeUnresponsive,
            Medium,
            "ListPodSandbox times out",
        );
    }
    if lists == 0 && sandboxes == 0 && !starved {
        add(
            Method::AnyList,
            Cause::RuntimeUnresponsive,
            Medium,
            "a list call times out",
        );
    }
    // A runtime whose lists hang, too, is not held up by a lock that only this container has.
    let statuses = calls.late.get(&Method::ContainerStatus);
    let are_many = statuses.is_some_and(|late| late.whom.len() > 1);
    let any_list = count(calls, Method::AnyList) > 0;
    let (cause, confidence) = match (lists > 0, sandboxes > 0) {
        (_, true) => (Cause::RuntimeUnresponsive, Medium),
        (true, false) if is_down => (Cause::RuntimeUnresponsive, Medium),
        (false, false) if are_many && any_list => (Cause::RuntimeUnresponsive, Medium),
        (true, false) if starved => (Cause::ContainerStatusLock, Low),
        (true, false) => (Cause::ContainerStatusLock, Medium),
        (false, false) => (Cause::ContainerLock, Medium),
    };
    add(
        Method::ContainerStatus,
        cause,
        confidence,
        "ContainerStatus times out",
    );
    // The dockershim's is an inspection by dockerd, which asks no shim.
    add(
        Method::PodSandboxStatus,
        match calls.are_of_dockershim {
            true => Cause::ContainerLock,
            false => Cause::ShimUnresponsive,
        },
        Medium,
        "PodSandboxStatus times out",
    );
    // Lists do not wait for a CNI plugin: if they are late, too, it is the runtime.
    if lists == 0 && sandboxes == 0 && count(calls, Method::AnyList) == 0 {
        add(
            Method::RunPodSandbox,
            Cause::CniPluginHang,
            Low,
            "RunPodSandbox times out, most often in a CNI plugin",
        );
    }
    // StopPodSandbox alone shows nothing: it waits for the shim, and for a CNI plugin.
    add(
        Method::StopContainer,
        Cause::ShimUnresponsive,
        Low,
        "StopContainer times out",
    );
    // After a single one nothing shows that the lists still come.
    if lists == 0 && sandboxes == 0 && is_down && count(calls, Method::Status) == 1 {
        add(
            Method::Status,
            Cause::RuntimeUnresponsive,
            Medium,
            "Status times out, and the kubelet says that the runtime is down",
        );
    } else if lists == 0 && sandboxes == 0 {
        add(
            Method::Status,
            Cause::CniPluginHang,
            Low,
            "Status times out, but list calls do not: in containerd before 1.3, Status waits for \
             a CNI plugin",
        );
    }
}

fn lines(late: &Late) -> String {
    let whom = match late.whom.len() {
        0 => String::new(),
        1 => ", all about one container or pod".to_owned(),
        many => format!(", about {many} different containers or pods"),
    };
    match late.lines {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines{whom}"),
    }
}
