//! Diagnoses by the agent: when something is wrong, the node is diagnosed at once, before a restart
//! removes the evidence, and the findings are kept.
//!
//! ```text
//!   reports --> occasions (pure: when) --> doctor (a process of its own) --> Findings --> reports
//!                 ^                             \--> bundles: the newest ten, 50 MB
//!   symptoms -----/
//! ```
//!
//! The doctor is a separate process, so that its memory, and any call in which it blocks, end with it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cri::Endpoint;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::health::HealthState;
use pleg::out::status_report::Finding;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use self::doctor::{Doctor, DoctorReport, SerialsLeft};
use self::occasions::{Occasion, Occasions};
use self::statistics::GuardedStatistics;
use crate::config::check_absolute;
use crate::history::History;
use crate::metrics::{Diagnosed, Metrics};
use crate::reports::Reports;
use crate::symptoms::{self, Symptom};

mod bundles;
mod doctor;
pub(crate) mod findings;
mod occasions;
mod statistics;

pub use findings::Findings;

/// How long the disk may take before a diagnosis continues without a bundle.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);

/// What is diagnosed, and where the bundles are kept. Without this section, nothing is diagnosed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DiagnosisConfig {
    /// The folder of the bundles.
    pub directory: PathBuf,
    /// Whether a healthy node is checked once a day for what may become trouble.
    pub check_up: bool,
    /// Folders with the site's own causes and rules, which are used in addition to the built-in ones.
    pub rules: Vec<PathBuf>,
}

impl Default for DiagnosisConfig {
    fn default() -> Self {
        Self {
            directory: "/var/lib/pleg/bundles".into(),
            check_up: true,
            rules: Vec::new(),
        }
    }
}

impl DiagnosisConfig {
    /// Refuses values that cannot work; the error is a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_absolute("diagnosis.directory", &self.directory)?;
        let mut rules = self.rules.iter();
        rules.try_for_each(|folder| check_absolute("diagnosis.rules", folder))
    }
}

/// Where the result of a diagnosis goes.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    pub(crate) findings: &'a Findings,
    pub(crate) metrics: &'a Metrics,
    /// The recording, if there is one.
    pub(crate) history: Option<&'a History>,
}

impl Outputs<'_> {
    /// Sets the metric that shows when systemd's serial numbers run out. If this is unknown now, the
    /// known time is kept: a bus that does not answer may be the fault itself.
    fn systemd_cookie(&self, left: SerialsLeft, now: WallTime) {
        let overflow = match left {
            SerialsLeft::Seconds(left) => Some(now.as_unix_seconds() + left),
            SerialsLeft::Unlimited => None,
            SerialsLeft::Unknown => return,
        };
        self.metrics.systemd_cookie_overflow(overflow);
    }
}

/// Diagnoses the node on each [`Occasion`].
pub(crate) struct Diagnosis {
    config: DiagnosisConfig,
    doctor: Doctor,
}

impl Diagnosis {
    /// Diagnoses by the doctor in `program`, of the runtime at `endpoint`, for the agent that serves on
    /// `socket`.
    pub(crate) fn new(
        config: DiagnosisConfig,
        program: OsString,
        endpoint: &Endpoint,
        socket: &Path,
    ) -> Self {
        Self {
            doctor: Doctor::new(program, endpoint, socket, config.rules.clone()),
            config,
        }
    }

    /// Diagnoses the node when a report or a symptom of this machine is an occasion, until no more
    /// reports are made.
    pub(crate) async fn run(&self, outputs: Outputs<'_>, reports: Reports) {
        let symptoms = watch::Sender::default();
        tokio::select! {
            never = symptoms::watch("/proc".into(), &symptoms) => match never {},
            () = self.diagnose_by(outputs, reports, symptoms.subscribe()) => {}
        }
    }

    async fn diagnose_by(
        &self,
        outputs: Outputs<'_>,
        mut reports: Reports,
        mut symptoms: watch::Receiver<BTreeSet<Symptom>>,
    ) {
        let mut occasions = Occasions::new(self.config.check_up, Instant::now());
        let mut statistics = GuardedStatistics::default();
        loop {
            let is_open = tokio::select! {
                changed = reports.changed() => changed.is_ok(),
                changed = symptoms.changed() => changed.is_ok(),
            };
            if !is_open {
                return;
            }
            let mut present = symptoms.borrow_and_update().clone();
            let occasion = {
                let report = reports.borrow_and_update();
                if statistics.are_overdue(report.as_ref(), Instant::now()) {
                    present.insert(Symptom::Statistics);
                }
                outputs.findings.retain_of(&present);
                let state = report.as_ref().map(|report| report.health.state);
                if state == Some(HealthState::Healthy) {
                    outputs.findings.node_is_healthy();
                }
                occasions.next(report.as_ref(), &present, Instant::now())
            };
            if let Some(occasion) = occasion {
                let found = self.diagnose(occasion, &present, outputs).await;
                occasions.diagnosed(occasion, &found, Instant::now());
            }
        }
    }

    /// Diagnoses the node, and passes the result to `outputs`. Returns the PID of each finding's culprit,
    /// if that is a process.
    async fn diagnose(
        &self,
        occasion: Occasion,
        symptoms: &BTreeSet<Symptom>,
        outputs: Outputs<'_>,
    ) -> Vec<Option<u32>> {
        let time = system_clock()();
        let place = match occasion {
            Occasion::Trouble | Occasion::Symptoms => self.place(time).await,
            // The bundle of a healthy node is not kept.
            Occasion::CheckUp => None,
        };
        let report = self.doctor.run(place.as_deref()).await;
        let ended = match &report {
            Ok(report) if report.findings.is_empty() => Diagnosed::Nothing,
            Ok(_) => Diagnosed::Found,
            Err(why) => {
                tracing::warn!("the node could not be diagnosed: {why}");
                Diagnosed::Failed
            }
        };
        outputs.metrics.diagnosed(ended);
        let bundle = self.keep_bundle(place).await;
        let Ok(report) = report else {
            return Vec::new();
        };
        let culprits = report.findings.iter();
        let found = culprits.map(|finding| finding.culprit.pid).collect();
        outputs.systemd_cookie(report.systemd_cookie_left_seconds, time);
        if let (Some(history), Occasion::Trouble | Occasion::Symptoms) = (outputs.history, occasion)
        {
            history.diagnosed(report.recorded(time, bundle.as_deref()));
        }
        let of_symptom = report.of_symptom(symptoms, occasion);
        let findings: Vec<_> = report.into_findings(time, bundle.as_deref()).collect();
        let of_symptom =
            of_symptom.and_then(|(symptom, at)| Some((symptom, findings.get(at)?.clone())));
        match occasion {
            Occasion::CheckUp => outputs.findings.change(|known| known.warnings = findings),
            Occasion::Symptoms => {
                log(of_symptom.as_ref().map(|(_, finding)| finding));
                outputs
                    .findings
                    .change(|known| known.of_symptom = of_symptom);
            }
            Occasion::Trouble => {
                let first = findings.into_iter().next();
                log(first.as_ref());
                outputs.findings.change(|known| {
                    known.leading = first;
                    if of_symptom.is_some() {
                        known.of_symptom = of_symptom;
                    }
                });
            }
        }
        found
    }

    /// The path of the next bundle; `None` if the disk does not answer.
    async fn place(&self, time: WallTime) -> Option<PathBuf> {
        let directory = self.config.directory.clone();
        let made = spawn_blocking(move || bundles::place(&directory, time));
        match timeout(DISK_TIMEOUT, made).await {
            Ok(Ok(Ok(place))) => Some(place),
            Ok(Ok(Err(error))) => {
                let directory = self.config.directory.display();
                tracing::warn!("no bundle is kept in {directory}: {error}");
                None
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("no bundle is kept: the disk does not answer");
                None
            }
        }
    }

    /// Removes old bundles. Returns the new one, if it was written.
    async fn keep_bundle(&self, place: Option<PathBuf>) -> Option<PathBuf> {
        let place = place?;
        let directory = self.config.directory.clone();
        let kept = spawn_blocking(move || {
            if let Err(error) = bundles::prune(&directory) {
                tracing::warn!("old bundles in {} stay: {error}", directory.display());
            }
            place.is_file().then_some(place)
        });
        timeout(DISK_TIMEOUT, kept).await.ok()?.ok()?
    }
}

fn log(finding: Option<&Finding>) {
    let Some(finding) = finding else {
        return;
    };
    let bundle = finding.bundle.as_ref();
    let bundle = bundle.map(|path| format!("; kept in {path}"));
    let bundle = bundle.unwrap_or_default();
    let sentence = format!("{}: {}{bundle}", finding.cause, finding.sentence);
    tracing::warn!("diagnosis: {}", pleg_text::escape::sentence(&sentence));
}

impl DoctorReport {
    /// A symptom that a finding is about, and the index of that finding. If the node was diagnosed
    /// because of symptoms and no finding is about one of them, the first finding that is more than a
    /// suspicion explains the first symptom.
    fn of_symptom(
        &self,
        symptoms: &BTreeSet<Symptom>,
        occasion: Occasion,
    ) -> Option<(Symptom, usize)> {
        let findings = self.findings.iter().enumerate();
        let mut named = findings.filter_map(|(at, finding)| {
            let mut symptoms = symptoms.iter();
            let symptom = symptoms.find(|symptom| is_about(finding, symptom))?;
            Some((symptom.clone(), at))
        });
        let explains = || {
            let first = symptoms
                .first()
                .filter(|_| occasion == Occasion::Symptoms)?;
            let mut findings = self.findings.iter();
            let at = findings.position(|finding| !finding.is_doubtful())?;
            Some((first.clone(), at))
        };
        named.next().or_else(explains)
    }

    fn recorded(&self, began: WallTime, bundle: Option<&Path>) -> recorder::Diagnosed {
        recorder::Diagnosed {
            began,
            findings: self.findings.clone(),
            bundle: bundle.map(|path| path.display().to_string()),
        }
    }

    fn into_findings(self, time: WallTime, bundle: Option<&Path>) -> impl Iterator<Item = Finding> {
        let bundle = bundle.map(|path| path.display().to_string());
        self.findings.into_iter().map(move |found| Finding {
            sentence: match found.sentence.is_empty() {
                true => found.title,
                false => found.sentence,
            },
            cause: found.cause,
            confidence: found.confidence,
            time,
            bundle: bundle.clone(),
        })
    }
}

fn is_about(finding: &recorder::Finding, symptom: &Symptom) -> bool {
    let culprit = &finding.culprit;
    match symptom {
        Symptom::Process { pid, .. } => culprit.pid == Some(*pid),
        Symptom::Deletion { container, .. } => culprit.id.as_ref() == Some(container),
        Symptom::Statistics => finding.cause == "statistics-hang",
        Symptom::Full(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sample_report::report;

    #[test]
    fn a_symptom_is_reported_by_the_finding_that_names_it_or_explains_it() {
        let json = r#"{"findings":[{"cause":"too-many-containers","culprit":{},"confidence":"low"},
            {"cause":"disk-full","culprit":{},"confidence":"certain"},
            {"cause":"runc-hung","culprit":{"pid":200},"confidence":"high"},
            {"cause":"statistics-hang","culprit":{},"confidence":"medium"}]}"#;
        let report: DoctorReport = serde_json::from_str(json).unwrap();
        let of_statistics = BTreeSet::from([Symptom::Statistics]);
        let found = report.of_symptom(&of_statistics, Occasion::Symptoms);
        assert_eq!(found, Some((Symptom::Statistics, 3)));
        let symptoms = |pids: &[u32]| pids.iter().map(|pid| Symptom::of_test(*pid)).collect();
        let at = |pids: &[u32], occasion| {
            let found = report.of_symptom(&symptoms(pids), occasion);
            found.map(|(_, at)| at)
        };
        assert_eq!(at(&[100, 200], Occasion::Trouble), Some(2));
        assert_eq!(at(&[100], Occasion::Trouble), None);
        assert_eq!(at(&[100], Occasion::Symptoms), Some(1));
        assert_eq!(at(&[], Occasion::Symptoms), None);
    }

    #[tokio::test]
    async fn what_is_found_of_a_symptom_stays_until_it_is_over() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("pleg");
        let json = r#"{"findings":[{"cause":"runc-hung","culprit":{"pid":200}}]}"#;
        std::fs::write(&program, format!("#!/bin/sh\necho '{json}'\n")).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let config = DiagnosisConfig {
            directory: place.path().join("bundles"),
            ..DiagnosisConfig::default()
        };
        let endpoint = Endpoint::new("/run/x.sock");
        let diagnosis = Diagnosis::new(config, program.into(), &endpoint, place.path());
        let (metrics, findings) = (Metrics::new().unwrap(), Findings::default());
        let outputs = Outputs {
            findings: &findings,
            metrics: &metrics,
            history: None,
        };
        let (healthy, reports) = watch::channel(Some(report("Healthy", "AllSeen", &[])));
        let (present, symptoms) = watch::channel(BTreeSet::from([Symptom::of_test(200)]));
        let shown = || {
            let mut report = report("Healthy", "AllSeen", &[]);
            findings.show(&mut report);
            report.finding.map(|finding| finding.cause)
        };
        let happens = async {
            let mut changes = findings.changes();
            present.send_replace(BTreeSet::from([Symptom::of_test(200)]));
            changes.changed().await.unwrap();
            assert_eq!(shown().as_deref(), Some("runc-hung"));
            healthy.send_modify(|_| {});
            present.send_replace(BTreeSet::new());
            changes.changed().await.unwrap();
            assert_eq!(shown(), None);
        };
        tokio::select! {
            () = diagnosis.diagnose_by(outputs, reports, symptoms) => panic!("it goes on"),
            () = happens => {}
        }
    }

    #[test]
    fn a_known_overflow_stays_known_until_a_diagnosis_knows_better() {
        let (metrics, findings) = (Metrics::new().unwrap(), Findings::default());
        let outputs = Outputs {
            findings: &findings,
            metrics: &metrics,
            history: None,
        };
        let now = WallTime::from_unix_nanos(1_800_000_000_000_000_000).unwrap();
        for (left, shown) in [
            ("", None),
            (
                r#","systemdCookieLeftSeconds":1000.5"#,
                Some(1_800_001_000.5),
            ),
            ("", Some(1_800_001_000.5)),
            (r#","systemdCookieLeftSeconds":7"#, Some(1_800_000_007.0)),
            (r#","systemdCookieLeftSeconds":null"#, None),
            ("", None),
        ] {
            let json = format!(r#"{{"verdict":"ok","findings":[]{left}}}"#);
            let report: DoctorReport = serde_json::from_str(&json).unwrap();
            outputs.systemd_cookie(report.systemd_cookie_left_seconds, now);
            assert_eq!(
                metrics.shown("pleg_systemd_cookie_overflow_seconds"),
                shown,
                "{left}"
            );
        }
    }
}
