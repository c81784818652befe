//! The part of the doctor's report (`pleg doctor -o json`) that the screen shows.
//!
//! ```
//! use top::diagnosis::Diagnosis;
//!
//! let json = r#"{"verdict": "ok", "summary": "all calls were answered", "findings": []}"#;
//! let diagnosis: Diagnosis = serde_json::from_str(json)?;
//! assert_eq!(diagnosis.summary, "all calls were answered");
//! # Ok::<(), serde_json::Error>(())
//! ```

use pleg::out::status_report;
use serde::Deserialize;

/// A report of the doctor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Diagnosis {
    /// `ok`, `problem` or `unknown`.
    pub verdict: String,
    /// The result in one sentence, with names.
    pub summary: String,
    /// The findings, root causes first.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// A finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    /// The id of the cause, for `pleg explain`.
    pub cause: String,
    /// The title of the cause, in one sentence.
    pub title: String,
    /// The finding on this node, with names; empty if the title says everything that is known.
    pub sentence: String,
    /// `problem` or `suspect`.
    pub verdict: String,
    /// `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// The evidence.
    pub evidence: Vec<String>,
    /// The advice.
    pub advice: Vec<String>,
}

impl Finding {
    /// The finding, with names if there are any.
    pub fn text(&self) -> &str {
        match self.sentence.is_empty() {
            true => &self.title,
            false => &self.sentence,
        }
    }
}

impl From<&status_report::Finding> for Diagnosis {
    fn from(found: &status_report::Finding) -> Self {
        let finding = Finding {
            cause: found.cause.clone(),
            sentence: found.sentence.clone(),
            verdict: "problem".to_owned(),
            confidence: found.confidence.clone(),
            ..Finding::default()
        };
        Self {
            verdict: finding.verdict.clone(),
            summary: found.sentence.clone(),
            findings: vec![finding],
        }
    }
}
