//! Units of systemd.

use super::{Counted, Failure, UNITS, failure};

const UNIT_GIVEN_UP: &str =
    "systemd no longer starts the unit of the kubelet or of the runtime, which exits at once";

pub(in crate::signs) const UNIT_FAILED: &str = "the unit of the kubelet or of the runtime failed";

const UNIT_NOT_STARTED: &str =
    "systemd cannot start the unit of the kubelet or of the runtime as it is configured";

/// What systemd exits with instead of the program of a unit that it cannot start.
const fn not_started(status: &'static str) -> Failure {
    Failure {
        with: UNITS,
        ..failure(status, UNIT_NOT_STARTED)
    }
}

pub(super) const OF_UNITS: &[Failure] = &[
    Failure {
        with: UNITS,
        // containerd's unit loads a module first, which may fail.
        without: &["/modprobe"],
        ..failure("ailed at step ", UNIT_NOT_STARTED)
    },
    not_started("exited, status=200/CHDIR"),
    not_started("exited, status=203/EXEC"),
    not_started("exited, status=205/LIMITS"),
    not_started("exited, status=216/GROUP"),
    not_started("exited, status=217/USER"),
    not_started("exited, status=219/CGROUP"),
    not_started("exited, status=226/NAMESPACE"),
    not_started("exited, status=229/SECCOMP"),
    not_started("exited, status=238/STATE_DIRECTORY"),
    not_started("exited, status=243/CREDENTIALS"),
    failure("A stop job is running for ", "a unit does not stop"),
    Failure {
        with: UNITS,
        ..failure("tart request repeated too quickly", UNIT_GIVEN_UP)
    },
    Failure {
        with: UNITS,
        lines: 5,
        counted: Counted::Numbered,
        ..failure(
            "restart counter is at ",
            "systemd starts the unit of the kubelet or of the runtime time after time",
        )
    },
    Failure {
        with: UNITS,
        ..failure(".service: Failed with result", UNIT_FAILED)
    },
    Failure {
        with: UNITS,
        ..failure(".service failed.", UNIT_FAILED)
    },
    failure(
        // systemd waits for the processes in it: that they do not end says nothing of systemd.
        "Timed out while waiting for systemd to remove",
        "systemd did not remove a unit in time: a process in it has not ended, or systemd is busy",
    ),
    failure(
        "not been booted with systemd as init system",
        "systemd does not run here, so systemctl can do nothing",
    ),
    failure(
        "Timed out waiting for device ",
        "a device did not appear in time",
    ),
];
