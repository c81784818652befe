//! The probes of a container.

use std::fmt;
use std::time::Duration;

/// The probes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// The startup probe. The other probes start once it has succeeded. If it fails, the container is
    /// killed.
    pub startup: Option<Probe>,
    /// The liveness probe. If it fails, the container is killed.
    pub liveness: Option<Probe>,
    /// The readiness probe. It decides whether the container is ready.
    pub readiness: Option<Probe>,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// `startupProbe`
    Startup,
    /// `livenessProbe`
    Liveness,
    /// `readinessProbe`
    Readiness,
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        })
    }
}

impl Probes {
    /// The probe of this kind.
    pub fn get(&self, kind: ProbeKind) -> Option<&Probe> {
        let probe = match kind {
            ProbeKind::Startup => &self.startup,
            ProbeKind::Liveness => &self.liveness,
            ProbeKind::Readiness => &self.readiness,
        };
        probe.as_ref()
    }
}

/// A check, how often it is performed, and how many results in a row count.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The check.
    pub check: Check,
    /// `initialDelaySeconds`: the time from the start of the container to the first check. 0 by
    /// default.
    pub initial_delay: Duration,
    /// `periodSeconds`: the time from one check to the next. 10 s by default.
    pub period: Duration,
    /// `timeoutSeconds`: a check that takes longer has failed. 1 s by default.
    pub timeout: Duration,
    /// `successThreshold`: how many successes in a row make the probe succeed. 1 by default.
    pub success_threshold: u32,
    /// `failureThreshold`: how many failures in a row make the probe fail. 3 by default.
    pub failure_threshold: u32,
    /// `terminationGracePeriodSeconds`: replaces the pod's grace period if the container is killed
    /// because of this probe.
    pub grace_period: Option<Duration>,
}

/// The check of a probe. Port names are already resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Runs a command in the container. Exit code 0 is a success.
    Exec(Vec<String>),
    /// `httpGet`: a status from 200 to 399 is a success.
    Http {
        /// The scheme.
        scheme: Scheme,
        /// The host; the pod's address by default.
        host: Option<String>,
        /// The port.
        port: u16,
        /// The path, which begins with `/`.
        path: String,
        /// Names and values of headers.
        headers: Vec<(String, String)>,
    },
    /// `tcpSocket`: a connection is a success.
    Tcp {
        /// The host; the pod's address by default.
        host: Option<String>,
        /// The port.
        port: u16,
    },
}

/// The scheme of an HTTP probe. As in the kubelet, certificates are not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `HTTP`
    Http,
    /// `HTTPS`
    Https,
}
