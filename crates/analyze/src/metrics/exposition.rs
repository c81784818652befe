//! Parses Prometheus' text format. Only samples about the PLEG and the runtime are kept.

/// One sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The name of the metric.
    pub name: String,
    /// The operation type, from the labels.
    pub operation: Option<String>,
    /// The upper bound (`le`) of a histogram's bucket.
    pub le: Option<f64>,
    /// The quantile of a summary.
    pub quantile: Option<f64>,
    /// The value of the sample.
    pub value: f64,
}

/// Reads metrics line by line.
#[derive(Debug, Default)]
pub struct Exposition {
    samples: Vec<Sample>,
    seen_type: bool,
}

const MAX_SAMPLES: usize = 5000;

impl Exposition {
    /// Parses a line; returns whether it has this format.
    pub fn line(&mut self, line: &str) -> bool {
        if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
            self.seen_type = true;
            return true;
        }
        let Some(sample) = sample(line) else {
            return line == "# EOF" && self.seen_type;
        };
        let ours = sample.name.starts_with("kubelet_pleg_")
            || sample.name.starts_with("kubelet_runtime_operations");
        if !ours {
            // Nothing else has the form of a histogram's bucket.
            let is_bucket = sample.le.is_some() && sample.name.ends_with("_bucket");
            return self.seen_type || is_bucket || sample.name.starts_with("kubelet_");
        }
        // Samples beyond the limit count as unread.
        let fits = self.samples.len() < MAX_SAMPLES;
        if fits {
            self.samples.push(sample);
        }
        fits
    }

    /// The samples.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// `name{label="value",…} 1.054052e+06 [time]`
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' ', '\t'])?;
    let name = &line[..end];
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if name.is_empty()
        || name.len() > 200
        || !name.chars().all(plain)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let mut sample = Sample {
        name: name.to_owned(),
        ..Sample::default()
    };
    let mut rest = &line[end..];
    if let Some(labels) = rest.strip_prefix('{') {
        let close = labels.rfind('}')?;
        for label in labels[..close].split(',') {
            let Some((key, value)) = label.split_once('=') else {
                continue;
            };
            let value = value.trim_matches('"');
            match key.trim() {
                "operation_type" => sample.operation = Some(value.chars().take(60).collect()),
                "le" => sample.le = value.parse().ok(),
                "quantile" => sample.quantile = value.parse().ok(),
                _ => {}
            }
        }
        rest = &labels[close + 1..];
    }
    let mut words = rest.split_ascii_whitespace();
    sample.value = words.next()?.parse().ok()?;
    let time = words.next().is_none_or(|time| time.parse::<f64>().is_ok());
    (time && words.next().is_none()).then_some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_the_labels_that_matter() {
        let read =
            sample("kubelet_pleg_relist_latency_microseconds{quantile=\"0.99\"} 115232").unwrap();
        assert_eq!((read.quantile, read.value), (Some(0.99), 115_232.0));
        let read =
            sample("kubelet_x_bucket{operation_type=\"a\",le=\"+Inf\"} 5 1700000000000").unwrap();
        assert_eq!(
            (read.operation.as_deref(), read.le),
            (Some("a"), Some(f64::INFINITY))
        );
        for line in ["", "x", "x y", "x{ 1", "1x 2", "two words 3", "x 1 2 3"] {
            assert_eq!(sample(line), None, "{line}");
        }
    }
}
