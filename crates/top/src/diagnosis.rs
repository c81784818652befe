//! The doctor's answer as `pleg doctor -o json` prints it, as far as the screen shows it.
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

/// What is wrong with the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Diagnosis {
    /// `ok`, `problem` or `unknown`.
    pub verdict: String,
    /// One sentence, with names.
    pub summary: String,
    /// What was found, root causes first.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// One cause that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Finding {
    /// Its id, by which `pleg explain` has a page about it.
    pub cause: String,
    /// What it is, in one sentence.
    pub title: String,
    /// The same of this node, with names; empty where the title says all that is known.
    pub sentence: String,
    /// `problem` or `suspect`.
    pub verdict: String,
    /// `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// What shows it.
    pub evidence: Vec<String>,
    /// What to do now.
    pub advice: Vec<String>,
}

impl Finding {
    /// What was found, with names if there are any.
    pub fn said(&self) -> &str {
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
