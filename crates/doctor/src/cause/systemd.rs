//! systemd and D-Bus.

use super::About;

pub(super) const COOKIE_OVERFLOW: About = About {
    title: "systemd has used up its D-Bus serial numbers and answers nobody any more",
    advice: &[
        "run `systemctl daemon-reexec`: it works over the private socket and starts the counter again",
        "then end the runc processes that still wait, or restart the runtime",
        "update systemd, and re-exec it: an update alone leaves the old process running",
    ],
    fixed_in: &[
        "systemd 242",
        "RHEL/CentOS 7.6: systemd-219-62.el7_6.8",
        "RHEL/CentOS 7.7: systemd-219-67.el7",
        "RHEL 8.1: systemd-239-16.el8",
        "Ubuntu 18.04: 237-3ubuntu10.41",
    ],
    references: &[
        "https://github.com/systemd/systemd/pull/11818",
        "https://github.com/lnykryn/systemd-rhel/pull/266",
        "https://github.com/opencontainers/runc/issues/1959",
    ],
};

pub(super) const OVERLOADED: About = About {
    title: "systemd is too busy to answer runc in time",
    advice: &[
        "look at the CPU time of process 1 and the number of lines in /proc/1/mountinfo",
        "update runc (1.1.15 or 1.2 no longer mount for every exec) and systemd (249)",
        "have fewer exec probes and fewer mounts; `systemctl reset-failed` clears leaked units",
    ],
    fixed_in: &["runc 1.1.15", "runc 1.2.0", "systemd 249"],
    references: &[
        "https://github.com/systemd/systemd/issues/15464",
        "https://github.com/opencontainers/runc/issues/2532",
        "https://github.com/kubernetes/kubernetes/issues/120103",
    ],
};

pub(super) const BUS_UNAVAILABLE: About = About {
    title: "the system bus, or systemd on it, cannot be reached",
    advice: &[
        "ask `busctl status org.freedesktop.systemd1`: without an owner, run `systemctl daemon-reexec`",
        "never restart D-Bus alone on a node; after it was restarted, restart the kubelet",
        "reboot if process 1 has frozen",
    ],
    fixed_in: &["libcontainer 1.1.3 (reconnects to a restarted bus)"],
    references: &[
        "https://github.com/kubernetes/kubernetes/issues/100328",
        "https://github.com/systemd/systemd/issues/16970",
    ],
};
