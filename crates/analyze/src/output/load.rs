//! `top`: what the processors do, and who makes them.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Seen;
use crate::proof::Proof;

/// What the head of the page said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    average: f64,
    /// The column of `%CPU`, once its header was read.
    processor_column: Option<usize>,
}

/// More that want to run than any but the largest machines have processors.
const HIGH_LOAD: f64 = 16.0;
/// Percent of idle time that leaves nothing to give.
const NO_IDLE: f64 = 5.0;
/// Percent of time in which all wait for the disk, or for the host.
const MUCH: f64 = 30.0;

/// `top - 14:31:55 up 3 days, …`
pub(super) fn begins(text: &str) -> bool {
    text.starts_with("top - ") && text.contains("load average")
}

impl Load {
    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        if let Some((_, averages)) = text.split_once("load average: ") {
            let first = averages.split([',', ' ']).next();
            self.average = first.and_then(|first| first.parse().ok()).unwrap_or(0.0);
        } else if text.starts_with("%Cpu") || text.starts_with("Cpu(s)") {
            self.processors(text, line, seen);
        } else if let Some(at) = text
            .split_ascii_whitespace()
            .position(|word| word == "%CPU")
        {
            self.processor_column = Some(at);
        } else if let Some(column) = self.processor_column {
            reclaim(text, column, line, seen);
        }
    }

    /// `%Cpu(s):  8.1 us, 90.2 sy,  1.3 ni,  0.2 id,  0.0 wa, …`, or `8.1%us`.
    fn processors(self, text: &str, line: u64, seen: &mut Seen) {
        let share = |name: &str| {
            let at = text
                .find(&format!(" {name}"))
                .or_else(|| text.find(&format!("%{name}")))?;
            let number = text[..at].rsplit([' ', ',', ':']).next()?;
            number.parse::<f64>().ok()
        };
        let (idle, waiting, stolen) = (share("id"), share("wa"), share("st"));
        let (Some(idle), waiting, stolen) = (idle, waiting.unwrap_or(0.0), stolen.unwrap_or(0.0))
        else {
            return;
        };
        let average = self.average;
        let (cause, says) = if stolen > MUCH {
            let says = format!("{stolen} % of the processors' time was stolen by the host");
            (Cause::CpuStarved, says)
        } else if waiting > MUCH {
            let says = format!(
                "the processors wait for disks {waiting} % of the time, load average {average}"
            );
            (Cause::DiskSaturated, says)
        } else if idle < NO_IDLE && average > HIGH_LOAD {
            let says =
                format!("the processors are idle {idle} % of the time, load average {average}");
            (Cause::CpuStarved, says)
        } else {
            return;
        };
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
}

/// The kernel's own reclaim takes half a processor only where memory has run out.
fn reclaim(text: &str, column: usize, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let is_kswapd = words.last().is_some_and(|name| name.starts_with("kswapd"));
    let share = words
        .get(column)
        .and_then(|share| share.parse::<f64>().ok());
    if let Some(share) = share.filter(|share| is_kswapd && *share > 50.0) {
        let culprit = Culprit {
            process: words.last().map(|name| (*name).to_owned()),
            pid: words.first().and_then(|pid| pid.parse().ok()),
            ..Culprit::default()
        };
        let says = format!("kswapd uses {share} % of a processor to find free memory");
        let proof = Proof::new(Cause::MemoryThrash, Confidence::High, line, says);
        seen.proof(proof.of(culprit));
    }
}
