//! The alerts and the dashboard of `deploy/monitoring` select what an agent and a guard export, and
//! link to pages that exist. promtool tests when the alerts fire.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::Metrics;
use guard_api::Added;
use pleg::out::status_report::GuardMode;
use pleg::runtime::Rpc;
use pleg::{Config, Environment, Pleg, no_ids};
use serde_json::Value;
use sim::Sim;
use tokio::time::sleep;

/// Where the links of the alerts lead; the rest of a link is a file in `docs`, and a heading in
/// that file.
const DOCS: &str = "https://pleg.dev/docs/";

/// Labels of a target, which Prometheus sets.
const TARGET: [&str; 3] = ["instance", "job", "cluster"];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn read(path: &str) -> String {
    read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

fn alerts() -> Vec<Value> {
    let rules = yaml("deploy/monitoring/rules.yaml");
    let groups = rules["groups"].as_array().unwrap();
    let rules = groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules.cloned().collect()
}

fn panels() -> Vec<Value> {
    let text = read("deploy/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    panels
        .filter(|panel| panel["type"] != "row")
        .cloned()
        .collect()
}

/// All that `/metrics` can show: every series of an agent beside a guard and an API server, after
/// a death, while nothing is as it should be.
async fn exported() -> String {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    let metrics = Arc::new(Metrics::new().unwrap());
    metrics.count_kubernetes().unwrap();
    metrics.count_history().unwrap();
    metrics.show_added(Some(&Added {
        bounds: vec![0.001],
        counts: vec![1, 0],
        sum: 0.0005,
    }));
    let environment = Environment {
        endpoint: "unix:///sim".into(),
        clock: sim.clock(),
        observer: metrics.clone(),
        ids: no_ids(),
        kernel: None,
    };
    let pleg = Pleg::start(Arc::new(sim.clone()), Config::default(), environment);
    sleep(Duration::from_secs(5)).await;
    sim.exit("web", "app", 1);
    sleep(Duration::from_secs(5)).await;
    let mut report = pleg.status().await.unwrap();
    report.kubelet_view.not_ready_in_seconds = Some(100.0);
    report.guard.idle_seconds = Some(1.0);
    report.guard.mode = GuardMode::Shadow;
    metrics.systemd_cookie_overflow(Some(1.8e9));
    report.guard.answers.insert(Rpc::ListContainers, 1);
    report.guard.completed.insert(Rpc::CreateContainer, 1);
    report.guard.refused.insert(Rpc::StopContainer, 1);
    metrics.own_text(&report).unwrap()
}

/// `name{label="value"}` in an expression.
struct Selector {
    name: String,
    matchers: Vec<Matcher>,
}

struct Matcher {
    label: String,
    operator: String,
    value: String,
}

fn selectors(expression: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '"') {
        rest = &rest[start..];
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = &quoted[quoted.find('"').unwrap() + 1..];
            continue;
        }
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let mut matchers = Vec::new();
        if let Some(inside) = after.strip_prefix('{') {
            let (inside, after) = inside.split_once('}').unwrap();
            rest = after;
            for matcher in inside.split(',') {
                let (left, value) = matcher.split_once('"').unwrap();
                let label = left.trim_end_matches(['=', '~', '!']);
                matchers.push(Matcher {
                    label: label.trim().to_owned(),
                    operator: left[label.len()..].to_owned(),
                    value: value.trim_end_matches('"').to_owned(),
                });
            }
        }
        if name.starts_with("pleg") || name.starts_with("kubelet") || !matchers.is_empty() {
            found.push(Selector {
                name: name.to_owned(),
                matchers,
            });
        }
    }
    found
}

/// Why an expression can never select anything; `None` if it can.
fn unknown(expression: &str, exported: &str) -> Option<String> {
    let series = |name: &str| {
        let of = exported.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        of.collect::<Vec<_>>()
    };
    for Selector { name, matchers } in selectors(expression) {
        // Prometheus makes these itself.
        if ["up", "ALERTS", "scrape_duration_seconds"].contains(&name.as_str()) {
            continue;
        }
        let series = series(&name);
        if series.is_empty() {
            return Some(format!("{name} is not exported"));
        }
        for matcher in matchers {
            let Matcher {
                label,
                operator,
                value,
            } = matcher;
            if TARGET.contains(&label.as_str()) {
                continue;
            }
            let values: Vec<_> = match operator.as_str() {
                "=~" | "!~" => value.split('|').collect(),
                _ => vec![value.as_str()],
            };
            for value in values {
                let pair = format!("{label}=\"{value}\"");
                if !series.iter().any(|line| line.contains(&pair)) {
                    return Some(format!("no {name} has {pair}"));
                }
            }
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn every_alert_and_every_panel_selects_what_is_exported() {
    let exported = exported().await;
    for alert in alerts() {
        let found = unknown(alert["expr"].as_str().unwrap(), &exported);
        assert_eq!(found, None, "{}", alert["alert"]);
    }
    for panel in panels() {
        for target in panel["targets"].as_array().unwrap() {
            let found = unknown(target["expr"].as_str().unwrap(), &exported);
            assert_eq!(found, None, "{}", panel["title"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_or_a_label_value_that_is_not_exported_is_found() {
    let exported = exported().await;
    for (expression, missing) in [
        (
            "sum(pleg_healthy) > 0 or vector(0)",
            "pleg_healthy is not exported",
        ),
        (
            r#"rate(pleg_stuck{operation_type=~"list_containers|list_pods",instance="a"}[1m])"#,
            "no pleg_stuck has operation_type=\"list_pods\"",
        ),
        (
            r#"up{job="pleg"} == 1 and pleg_health{state="healthy"}"#,
            "no pleg_health has state=\"healthy\"",
        ),
        (
            "kubelet_pleg_last_seen_seconds",
            "kubelet_pleg_last_seen_seconds is not exported",
        ),
    ] {
        assert_eq!(unknown(expression, &exported).as_deref(), Some(missing));
    }
    let well = r#"sum by (instance) (pleg_stuck{operation_type="version",instance=~"$instance"})"#;
    assert_eq!(unknown(well, &exported), None);
}

/// The anchor of a heading, as links contain it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_alert_links_to_a_heading_that_exists_and_is_explained_and_tested() {
    let page = read("docs/monitoring.md");
    let cases = ["node", "agent"].map(|file| read(&format!("deploy/monitoring/tests/{file}.yaml")));
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let link = url.strip_prefix(DOCS).unwrap_or_else(|| panic!("{url}"));
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let text = read(&format!("docs/{file}"));
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        assert!(
            heading.is_empty()
                || headings.any(|line| anchor(line.trim_start_matches('#').trim()) == heading),
            "{name}: {url}"
        );
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["warning", "critical"].contains(&severity), "{name}");
        let row = format!("| `{name}` | {severity} |");
        assert!(page.contains(&row), "docs/monitoring.md: {row}");
        let tested = format!("alertname=\"{name}\"");
        assert!(cases.iter().any(|file| file.contains(&tested)), "{name}");
    }
}

#[test]
fn the_operator_gets_the_same_rules() {
    let ours = yaml("deploy/monitoring/rules.yaml");
    let operators = yaml("deploy/monitoring/prometheusrule.yaml");
    assert_eq!(operators["kind"], "PrometheusRule");
    // Printing both files would hide the advice.
    assert!(
        operators["spec"] == ours,
        "run deploy/monitoring/prometheusrule > deploy/monitoring/prometheusrule.yaml"
    );
}

#[test]
fn every_panel_is_explained_and_asks_the_data_source_that_is_chosen() {
    let mut ids = BTreeSet::new();
    for panel in panels() {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64()), "{title}");
        assert!(panel["description"].as_str().unwrap().len() > 40, "{title}");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    assert!(!ids.is_empty());
}
