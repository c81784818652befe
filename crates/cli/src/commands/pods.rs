//! `pleg pods`: all pods with their sandboxes and containers.

use std::sync::Arc;

use anyhow::bail;
use pleg::status::PodStatus;

use crate::args::{Format, Global, Pods};
use crate::look::look;
use crate::{Found, endpoint, output, text};

pub async fn run(global: &Global, options: Pods) -> anyhow::Result<Found> {
    let endpoint = endpoint::find(global.named_endpoint()?).await?;
    let look = look(&endpoint).await?;
    if look.status.relist.count == 0 {
        let why = text::sentence(&look.status.health.message);
        bail!("the pods cannot be listed: {why}");
    }
    for stuck in &look.status.stuck {
        tracing::warn!("{stuck}");
    }
    let entries = look.pleg.cache().all();
    let mut shown: Vec<Arc<PodStatus>> = entries
        .into_iter()
        .map(|entry| entry.status)
        .filter(|pod| options.filter.shows(&pod.namespace, &pod.name))
        .collect();
    shown.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    match global.output {
        Format::Json => output::json(&shown)?,
        Format::Text => output::text(&text::pods::table(&shown))?,
    }
    Ok(if look.status.stuck.is_empty() {
        Found::Well
    } else {
        Found::Problem
    })
}
