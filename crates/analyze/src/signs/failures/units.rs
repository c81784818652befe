//! Units of systemd.

use super::{Counted, Failure, UNITS, failure};

const UNIT_GIVEN_UP: &str =
    "systemd no longer starts the unit of the kubelet or of the runtime, which exits at once";

pub(in crate::signs) const UNIT_FAILED: &str = "the unit of the kubelet or of the runtime failed";

pub(super) const OF_UNITS: &[Failure] = &[
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
