//! What calls prove that ran out of time, by the ways in which they are told apart when
//! one probes: which kind hangs, and about whom.

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
        ..
    } = told;
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
    };
    let count = |calls: &Calls, method| calls.lines(method);
    let (lists, sandboxes) = (
        count(calls, Method::ListContainers),
        count(calls, Method::ListPodSandbox),
    );
    let stops = count(calls, Method::StopContainer);
    let starved = lateness.is_some();
    if lists > 0 && sandboxes == 0 && !starved {
        let confidence = if lists > 1 { Medium } else { Low };
        add(
            Method::ListContainers,
            Cause::ContainerStatusLock,
            confidence,
            "ListContainers runs out of time while ListPodSandbox does not",
        );
    } else if sandboxes > 0 && !starved {
        add(
            Method::ListPodSandbox,
            Cause::RuntimeUnresponsive,
            Medium,
            "ListPodSandbox runs out of time",
        );
    }
    if lists == 0 && sandboxes == 0 && !starved {
        add(
            Method::AnyList,
            Cause::RuntimeUnresponsive,
            Medium,
            "a list runs out of time",
        );
    }
    add(
        Method::ContainerStatus,
        Cause::ContainerLock,
        Medium,
        "ContainerStatus runs out of time",
    );
    add(
        Method::PodSandboxStatus,
        Cause::ShimUnresponsive,
        Medium,
        "PodSandboxStatus runs out of time",
    );
    add(
        Method::RunPodSandbox,
        Cause::CniPluginHang,
        Low,
        "RunPodSandbox runs out of time, most often in a CNI plug-in",
    );
    // Whose containers cannot be stopped, its sandbox does not even get to the CNI plug-in.
    if stops > 0 {
        add(
            Method::StopContainer,
            Cause::ShimUnresponsive,
            Low,
            "StopContainer runs out of time",
        );
    } else {
        add(
            Method::StopPodSandbox,
            Cause::CniPluginHang,
            Low,
            "StopPodSandbox runs out of time, most often in a CNI plug-in",
        );
    }
    if lists == 0 && sandboxes == 0 {
        add(
            Method::Status,
            Cause::CniPluginHang,
            Low,
            "Status runs out of time while lists do not: containerd before 1.3 waits there for a CNI plug-in",
        );
    }
}

fn lines(late: &Late) -> String {
    let whom = match late.whom.len() {
        0 => String::new(),
        1 => ", all about one".to_owned(),
        many => format!(", about {many} different ones"),
    };
    match late.lines {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines{whom}"),
    }
}
