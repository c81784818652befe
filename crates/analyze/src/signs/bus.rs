//! What the system bus and its clients write, systemd above all.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, sign};
use crate::kind::Writer::Systemd;

pub(super) const SIGNS: &[Sign] = &[
    sign(
        "Failed to propagate agent release message: Operation not supported",
        Systemd,
        SystemdCookieOverflow,
        Certain,
    ),
    // A debugger's words: the next cookie has more than 32 bits.
    sign("bus_message_seal (", Systemd, SystemdCookieOverflow, High).with(&[
        "cookie=4294967",
        "cookie=4294968",
        "cookie=4294969",
        "cookie=429497",
        "cookie=429498",
        "cookie=429499",
        "cookie=4295",
    ]),
    sign(
        "The maximum number of pending replies per connection has been reached",
        Systemd,
        SystemdCookieOverflow,
        Medium,
    ),
    sign(
        "Failed to send unit change signal",
        Systemd,
        SystemdCookieOverflow,
        High,
    )
    .with(&["Operation not supported"]),
    sign("Failed to send job", Systemd, SystemdCookieOverflow, High)
        .with(&["Operation not supported"]),
    sign(
        "Failed to activate service 'org.freedesktop.systemd1'",
        Systemd,
        BusUnavailable,
        High,
    ),
    sign(
        "Activation of org.freedesktop.systemd1 timed out",
        Systemd,
        BusUnavailable,
        High,
    ),
    sign("Freezing execution", Systemd, BusUnavailable, Certain),
    sign(
        "/dbus/system_bus_socket: connect",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["dial unix"]),
    sign(
        "/dbus/system_bus_socket: No such file or directory",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["Failed to connect to socket"]),
    sign(
        "Failed to connect to system bus",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "Failed to connect to bus: Connection refused",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign("Cannot watch bus name", Systemd, BusUnavailable, Medium),
    // logind has lost its connection to systemd, and tries again with each session.
    sign(
        "Transport endpoint is not connected",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&[
        "session scope",
        "Failed to start user",
        "Failed to start session",
    ])
    .lines(3),
    sign(
        "Transport endpoint is not connected",
        Systemd,
        BusUnavailable,
        Low,
    )
    .with(&["Failed to abandon session scope"]),
    // They are not served, or are too slow to prove who they are.
    sign(
        "Connection has not authenticated soon enough",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .lines(2),
    sign(
        "dbus.service: Main process exited",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "dbus-broker.service: Main process exited",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    // dbus-broker.
    sign("quota on UID", Systemd, BusUnavailable, Medium).with(&["UID 0 exceeded its"]),
    sign("Got disconnect on API bus", Systemd, BusUnavailable, Low),
    sign(
        "Failed to connect to system scope bus",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["refused", "timed out", "transport: No such file"]),
    // A manager that was started anew does not get back to the bus.
    sign(
        "Failed to set up API bus: Connection timed out",
        Systemd,
        BusUnavailable,
        High,
    ),
    sign(
        "service org.freedesktop.systemd1: Remote peer disconnected",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "Message recipient disconnected from message bus without replying",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["kubelet", "runc", "crio", "cgroup", "systemd1"]),
    sign(
        "Could not get owner of name 'org.freedesktop.systemd1'",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    sign(
        "Failed to send reloading signal: Operation not supported",
        Systemd,
        SystemdCookieOverflow,
        High,
    ),
    sign("serial=429496729", Systemd, SystemdCookieOverflow, Medium),
    sign("onnection timed out", Systemd, BusUnavailable, Medium).with(&[
        "Failed to list unit files",
        "Failed to reload daemon",
        "Failed to execute operation",
        "Could not get properties",
        "Failed to query system properties",
        "Failed to get load state",
        "Failed to get unit file state",
        "Failed to get unit for PID",
        "Failed to list sessions",
        "Failed to kill unit",
        "Failed to wait for response",
        "Failed to read reply",
        "Failed to connect to bus",
    ]),
    sign(
        "ransport endpoint is not connected",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&[
        "Failed to get properties",
        "Failed to list units",
        "Failed to get load state",
        "unit change signal",
        "sd-bus call",
        "user service",
    ]),
    // The system bus cannot start what it is to start.
    sign(
        "aunch helper exited with u",
        Systemd,
        BusUnavailable,
        Medium,
    ),
    // Process 1 has crashed.
    sign("systemd[1]: Caught <", Systemd, BusUnavailable, High),
    sign(
        "Failed to get D-Bus connection: ",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&[
        "Connection refused",
        "Failed to connect to socket",
        "Connection timed out",
        "No connection to service manager",
    ])
    .without(&["Operation not permitted"]),
    sign(
        "Failed to activate service 'org.freedesktop.",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&[
        "login1': timed out",
        "hostname1': timed out",
        "timedate1': timed out",
        "PolicyKit1': timed out",
    ])
    .lines(2),
    sign(
        "does not have the resources to",
        Systemd,
        BusUnavailable,
        Medium,
    )
    .with(&["dbus-broker"]),
    sign("dbus.service: ", Systemd, BusUnavailable, Medium)
        .with(&["Failed with result", "Start request repeated"]),
];
