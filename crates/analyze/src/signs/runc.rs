//! What runc, crun and youki write, which make the processes of containers.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Runtime;

pub(super) const SIGNS: &[Sign] = &[
    // runc, of systemd's answer.
    sign(
        "completion signal from dbus. Continuing",
        Runtime,
        SystemdOverloaded,
        Medium,
    )
    .lines(2),
    sign("1.0.0-rc93", Runtime, RuncSeccompPipe, Low),
    sign("unable to freeze", Runtime, RuncInitFrozen, Medium),
    sign("unable to thaw", Runtime, RuncInitFrozen, Medium),
    sign(
        "error loading seccomp filter: errno 524",
        Runtime,
        KernelRegression,
        High,
    ),
    // youki, crun's sibling in Rust.
    sign(
        "Establishing a D-Bus connection",
        Runtime,
        BusUnavailable,
        Medium,
    ),
    sign(
        "The maximum number of active connections for UID 0 ",
        Runtime,
        BusUnavailable,
        High,
    ),
    // Of a user who is not the runtime's.
    sign(
        "The maximum number of active connections for UID ",
        Runtime,
        BusUnavailable,
        Low,
    )
    .without(&[" UID 0 "]),
    // runc has no connection to systemd.
    sign(
        "systemd support for managing cgroups is not available",
        Runtime,
        BusUnavailable,
        Medium,
    ),
    sign(
        "org.freedesktop.systemd1 was not provided by any .service files",
        Runtime,
        BusUnavailable,
        High,
    ),
    // crun.
    sign("cannot open sd-bus", Runtime, BusUnavailable, Medium),
    sign(
        "sd-bus call: Connection timed out",
        Runtime,
        SystemdOverloaded,
        Low,
    ),
    sign("runc version 1.3.", Runtime, RuncShortExecStuck, Low).without(&[
        "runc version 1.3.6",
        "runc version 1.3.7",
        "runc version 1.3.8",
        "runc version 1.3.9",
    ]),
    sign("runc version 1.4.0", Runtime, RuncShortExecStuck, Low),
    sign("runc version 1.4.1", Runtime, RuncShortExecStuck, Low),
    sign("unable to start unit ", Runtime, SystemdOverloaded, Medium).with(&[
        "imed out",
        "imeout was reached",
        "deadline exceeded",
    ]),
    // The error behind it is on the next line where a mail or a page has wrapped it.
    sign(
        "caused: mkdir /sys/fs/cgroup/memory/",
        Runtime,
        MemoryCgroupLeak,
        Low,
    )
    .without(&["ermission denied", "ead-only", "ile exists", "o such file"]),
];
