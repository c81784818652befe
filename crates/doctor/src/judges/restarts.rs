//! Services that systemd restarts again and again, according to its own count and the age of their main
//! process.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::phrases::age;
use crate::evidence::{culprit, known};
use crate::facts::host::{HostFacts, Process, Service};
use crate::limits::{
    MAX_ROUND_OF_EXITS_SECONDS, MAX_ROUND_SECONDS, MIN_RESTARTS, ROUNDS_TO_RECOVER,
};

/// A service in a loop of restarts.
pub(super) struct Restarts<'a> {
    pub(super) service: &'a Service,
    count: u32,
    now: Now<'a>,
    /// The average time from one start to the next, in seconds; `None` if most restarts may be old. It is
    /// an upper bound, because the restarts may have begun long after the machine started.
    pub(super) round: Option<f64>,
}

/// What a service does at this moment.
enum Now<'a> {
    /// The service runs.
    Runs(&'a Process),
    /// The service was started after the processes were read.
    Started(u32),
    /// The service has exited, and waits for its restart.
    Waits,
}

/// The opinion on the services that are `meant`. `find` makes the finding about one that is in a loop.
pub(super) fn opinion(
    host: &HostFacts,
    meant: impl Fn(&Service) -> bool,
    find: impl Fn(&Restarts) -> Option<Finding>,
) -> Opinion {
    let fact = &host.bus.services;
    let services = known(fact).iter();
    let services: Vec<&Service> = services.filter(|service| meant(service)).collect();
    let none = fact.value().filter(|_| services.is_empty());
    let none = none.map(|_| "systemd manages no such service here".to_owned());
    let uncounted = services.iter().find(|service| service.restarts.is_none());
    let uncounted = uncounted.map(|service| {
        let unit = &service.unit;
        format!(
            "systemd did not report how often it has restarted {unit}; versions before 235 do \
             not count restarts"
        )
    });
    let services = services.iter();
    let loops = services.filter_map(|service| Restarts::of(host, service));
    let found = loops.filter_map(|restarts| find(&restarts));
    let missing = [lack(fact), none, uncounted, lack_of_processes(host)];
    Opinion::of(found, missing)
}

impl<'a> Restarts<'a> {
    /// The restarts of a service; `None` if it is in no loop.
    pub(super) fn of(host: &'a HostFacts, service: &'a Service) -> Option<Self> {
        let count = service.restarts.filter(|count| *count >= MIN_RESTARTS)?;
        let now = Now::of(host, service)?;
        let lasts = now.seconds();
        let uptime = host.uptime_seconds.value();
        let round = uptime.map(|up| (up - lasts).max(0.0) / f64::from(count));
        let has_recovered = |round: f64| lasts > ROUNDS_TO_RECOVER * round;
        if lasts > MAX_ROUND_SECONDS || round.is_some_and(has_recovered) {
            return None;
        }
        Some(Self {
            service,
            count,
            now,
            round: round.filter(|round| *round <= MAX_ROUND_SECONDS),
        })
    }

    /// Whether it exits so soon after each start that nothing else can have ended it.
    pub(super) fn exits_at_start(&self) -> bool {
        self.round
            .is_some_and(|round| round <= MAX_ROUND_OF_EXITS_SECONDS)
    }

    /// A finding about these restarts, with a lower confidence if some of them may be old.
    pub(super) fn found(&self, cause: Cause) -> Finding {
        let confidence = match self.round {
            Some(_) => Confidence::High,
            None => Confidence::Medium,
        };
        let (unit, count) = (&self.service.unit, self.count);
        let process = match self.now {
            Now::Runs(process) => culprit::of_process(process),
            Now::Started(_) | Now::Waits => Culprit::default(),
        };
        let culprit = Culprit {
            unit: Some(unit.clone()),
            ..process
        };
        let evidence = vec![
            format!("NRestarts of {unit} is {count}; it counts restarts by systemd itself"),
            self.now.says(unit),
        ];
        finding(cause, confidence, culprit, evidence)
    }

    /// How often the service was restarted, and when it was last restarted.
    pub(super) fn says(&self) -> String {
        let last = match self.now {
            Now::Runs(process) => format!("the last time {} ago", age(process)),
            Now::Started(_) => "most recently just now".to_owned(),
            Now::Waits => "and is about to restart it again".to_owned(),
        };
        let unit = &self.service.unit;
        format!("systemd has restarted {unit} {} times, {last}", self.count)
    }
}

impl<'a> Now<'a> {
    fn of(host: &'a HostFacts, service: &Service) -> Option<Self> {
        match (service.main_pid, service.state.as_str()) {
            (_, "auto-restart" | "auto-restart-queued" | "start-pre") => Some(Self::Waits),
            (Some(pid), _) => match host.process(pid) {
                Some(process) => Some(Self::Runs(process)),
                // PIDs are comparable only if that systemd is process 1 here.
                None => (host.process(1)?.comm == "systemd" && host.shows_all_processes())
                    .then_some(Self::Started(pid)),
            },
            // The service is stopped, or systemd has given up.
            (None, _) => None,
        }
    }

    fn seconds(&self) -> f64 {
        match self {
            Self::Runs(process) => process.age_seconds,
            Self::Started(_) | Self::Waits => 0.0,
        }
    }

    fn says(&self, unit: &str) -> String {
        match self {
            Self::Runs(process) => {
                let (main, age) = (process.label(), age(process));
                format!("its main process, {main}, has been running for {age}")
            }
            Self::Started(pid) => {
                format!("its main process {pid} was started after the processes were read")
            }
            Self::Waits => format!("{unit} has exited and waits for its restart"),
        }
    }
}
