//! How the health of a container is checked.

use std::time::Duration;

/// The probes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// Until it succeeds, the others are not run; the container is killed if it fails.
    pub startup: Option<Probe>,
    /// The container is killed if it fails.
    pub liveness: Option<Probe>,
    /// Whether the container is ready.
    pub readiness: Option<Probe>,
}

/// A check, and how often it is made and believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// What is done.
    pub check: Check,
    /// `initialDelaySeconds`: from the start of the container to the first check. 0 by default.
    pub initial_delay: Duration,
    /// `periodSeconds`: from one check to the next. 10 s by default.
    pub period: Duration,
    /// `timeoutSeconds`: a check that takes longer has failed. 1 s by default.
    pub timeout: Duration,
    /// `successThreshold`: so many successes in a row after a failure count. 1 by default.
    pub success_threshold: u32,
    /// `failureThreshold`: so many failures in a row count. 3 by default.
    pub failure_threshold: u32,
    /// `terminationGracePeriodSeconds`: in place of the pod's where the container is killed for it.
    pub grace_period: Option<Duration>,
}

/// What a probe does. Names of ports have been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Runs a command in the container: 0 is a success.
    Exec(Vec<String>),
    /// `httpGet`: an answer from 200 to 399 is a success.
    Http {
        /// How.
        scheme: Scheme,
        /// To whom; the pod's address by default.
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
        /// To whom; the pod's address by default.
        host: Option<String>,
        /// The port.
        port: u16,
    },
}

/// How an HTTP probe asks. Certificates are not verified, as a kubelet does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `HTTP`
    Http,
    /// `HTTPS`
    Https,
}
