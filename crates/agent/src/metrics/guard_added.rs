//! How much time a guard adds to the calls that it passes, as the guard has counted it.

use std::sync::{Arc, Mutex, PoisonError};

use guard_api::Added;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};

const NAME: &str = "pleg_guard_added_seconds";
const HELP: &str = "What the guard added to a call that it passed to the runtime at once.";

/// The guard's histogram; absent without a guard. Clones share it.
#[derive(Clone)]
pub(super) struct GuardAdded {
    desc: Desc,
    added: Arc<Mutex<Option<Added>>>,
}

impl GuardAdded {
    pub(super) fn new() -> prometheus::Result<Self> {
        let desc = Desc::new(NAME.into(), HELP.into(), Vec::new(), Default::default())?;
        let added = Arc::default();
        Ok(Self { desc, added })
    }

    pub(super) fn show(&self, added: Option<&Added>) {
        *self.added.lock().unwrap_or_else(PoisonError::into_inner) = added.cloned();
    }
}

impl Collector for GuardAdded {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(added) = &*added else {
            return Vec::new();
        };
        let mut metric = Metric::default();
        metric.set_histogram(histogram(added));
        let mut family = MetricFamily::default();
        family.set_name(NAME.to_owned());
        family.set_help(HELP.to_owned());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);
        vec![family]
    }
}

fn histogram(added: &Added) -> Histogram {
    let mut so_far = 0;
    let buckets = added.bounds.iter().zip(&added.counts);
    let buckets = buckets.map(|(bound, count)| {
        so_far += count;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(so_far);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(added.counts.iter().sum());
    histogram.set_sample_sum(added.sum);
    histogram
}
