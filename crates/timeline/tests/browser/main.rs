//! The page in a real browser: Debian's chromium, without a window. Without chromium the tests are
//! skipped, with a message.
//!
//! ```text
//!   html --> before.js in its head: collects errors
//!        --> after.js at its end: moves the pointer, presses keys, writes what it saw
//!        --> chromium --dump-dom --> JSON
//! ```

use std::io::Write;
use std::process::Command;

use causes::Cause;
use causes::finding::{Culprit, PodName};
use episodes::{Episode, Source, What};
use pleg_text::WallTime;
use serde_json::Value;
use timeline::{Advice, Picture};

const BEGIN: i64 = 1_714_997_400; // 6 May 2024, 12:10:00

/// Markup that must have no effect where it is part of a name.
const HOSTILE: &str =
    "</script><script>window.hacked=1</script><img src=x onerror=hacked=1>\u{202e}";

fn second(second: i64) -> WallTime {
    WallTime::from_unix_nanos((BEGIN + second) * 1_000_000_000).unwrap()
}

fn pod(name: &str) -> Culprit {
    Culprit {
        pod: Some(PodName {
            uid: None,
            namespace: Some("default".into()),
            name: Some(name.into()),
        }),
        ..Culprit::default()
    }
}

fn call(name: &str) -> What {
    What::HungCall { call: name.into() }
}

/// An incident of five minutes, with hostile names.
fn incident() -> Picture {
    let source = Source {
        file: format!("kubelet{HOSTILE}.log"),
        line: Some(7),
        text: format!("E0506 the exact line {HOSTILE}"),
    };
    let hung =
        |from, to, who| Episode::new(second(from), to, call("ContainerStatus"), HOSTILE).about(who);
    let finding = What::Finding {
        cause: Cause::ContainerStatusLock,
        confidence: "certain".into(),
    };
    let episodes = vec![
        hung(10, Some(second(290)), pod("culprit")).written(source),
        hung(20, Some(second(30)), pod(HOSTILE)),
        Episode::new(second(190), Some(second(300)), What::NotReady, "not ready"),
        Episode::new(second(250), None, What::PodsSkipped, "skipped"),
        Episode::at(second(0), What::KubeletStarted, "started"),
        Episode::at(second(100), finding, "the shim is stopped"),
    ];
    let advice = Advice {
        cause: HOSTILE.into(),
        confidence: "high".into(),
        past: HOSTILE.into(),
        sentence: HOSTILE.into(),
        steps: vec![HOSTILE.into()],
        culprit: Some("runc (2047)".into()),
        evidence: None,
    };
    let remedy = Advice {
        cause: "container-status-lock".into(),
        steps: vec!["resume the shim".into()],
        ..Advice::default()
    };
    Picture {
        node: Some(HOSTILE.into()),
        advice: vec![advice, remedy],
        sources: vec![HOSTILE.into()],
        notes: vec![HOSTILE.into()],
        ..Picture::new(HOSTILE, episodes).unwrap()
    }
}

/// A fault that lasts for a day on a large node.
fn many(count: i64) -> Picture {
    let episode = |number: i64| {
        let from = number * 86_400 / count;
        let to = Some(second(from + 5 + number % 300));
        let who = pod(&format!("web-{}", number % 200));
        match number % 3 {
            0 => Episode::new(second(from), to, call("ContainerStatus"), "it hangs").about(who),
            1 => Episode::new(second(from), to, What::PodWaited, "not seen").about(who),
            _ => {
                let event = What::Event {
                    event: "ContainerDied".into(),
                    source: "sweep".into(),
                    delay_seconds: Some(0.4),
                };
                Episode::at(second(from), event, "exit code 137").about(who)
            }
        }
    };
    Picture::new("Many", (0..count).map(episode).collect()).unwrap()
}

/// Opens the page and returns what the script at its end has written; `None` without a browser.
fn opened(page: &str, script: &str, more: &[&str]) -> Option<Value> {
    let is_there = |name: &&&str| Command::new(**name).arg("--version").output().is_ok();
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .find(is_there)
    else {
        let why = "LEFT OUT: the page in a browser: chromium is not installed\n";
        let _ = std::io::stderr().write_all(why.as_bytes());
        return None;
    };
    let before = concat!("<head>\n<script>", include_str!("before.js"), "</script>");
    let after = format!("<script>{script}</script>\n</body>");
    let page = page
        .replacen("<head>", before, 1)
        .replacen("</body>", &after, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args(["--window-size=1400,1000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .args(more)
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = dom
        .rsplit_once("<pre id=\"result\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((json, _)) = result else {
        panic!(
            "no result: {dom}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let json = json
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    Some(serde_json::from_str(&json).unwrap())
}

#[test]
fn rows_pointer_keys_and_ranges_work_and_no_name_is_executed() {
    let page = timeline::html(&incident());
    let script = include_str!("after.js");
    let Some(seen) = opened(&page, script, &["--virtual-time-budget=3000"]) else {
        return;
    };
    assert_eq!(seen["errors"], serde_json::json!([]), "{seen:#}");
    assert_eq!(seen["hacked"], false);
    assert_eq!(seen["scripts"], seen["scriptsExpected"]);
    assert_eq!(seen["images"], 0);
    let labels: Vec<&str> = seen["labels"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(labels[0], "default/culprit (ContainerStatus)");
    assert_eq!(
        labels[2..],
        [
            "NotReady",
            "pods are not synced",
            "kubelet started",
            "container-status-lock"
        ]
    );
    assert_eq!(seen["bars"], 6);
    assert_eq!(
        seen["open"], 1,
        "an episode without an end has a dashed border"
    );
    let pointed = seen["pointed"].as_str().unwrap();
    for part in [
        "ContainerStatus hangs",
        "default/culprit",
        "4m40s",
        "the exact line",
        ".log:7",
    ] {
        assert!(pointed.contains(part), "{part}: {pointed}");
    }
    assert_eq!(seen["pinnedByClick"], true);
    assert_eq!(seen["releasedByEscape"], true);
    assert_eq!(seen["secondByKey"], true, "{seen:#}");
    assert_eq!(seen["remedyByKey"], true, "{seen:#}");
    assert_eq!(
        seen["inside"],
        serde_json::json!(["no answer 4m40s", "NotReady 1m50s"])
    );
    assert_eq!(seen["keys"], 5, "{seen:#}");
    assert_eq!(seen["ticksInside"], true, "{seen:#}");
    assert_eq!(seen["zoomedHash"], true, "{seen:#}");
    assert_eq!(seen["hashOfEverything"], "");
    assert_eq!(
        seen["rangeOfHash"],
        "6 May 12:13:20.000 to 6 May 12:15:00.000"
    );
    assert_eq!(seen["tableRows"], 3, "{seen:#}");
}

#[test]
fn ten_thousand_episodes_are_drawn_and_zoomed_without_a_pause() {
    let page = timeline::html(&many(10_000));
    let Some(seen) = opened(&page, include_str!("zoom.js"), &[]) else {
        return;
    };
    assert_eq!(seen["errors"], serde_json::json!([]), "{seen:#}");
    let median = seen["medianMillis"].as_f64().unwrap();
    // 10 ms on a quiet machine; a person notices a tenth of a second.
    assert!(median < 100.0, "{seen:#}");
    assert!(seen["bars"].as_u64().unwrap() > 30, "{seen:#}");
    assert!(seen["elements"].as_u64().unwrap() < 1000, "{seen:#}");
}

#[test]
fn the_page_refers_to_no_other_resource_and_an_ordinary_day_is_small() {
    let page = timeline::html(&many(1000));
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for part in ["http:", "https:", "url(", "@import", "src="] {
        assert!(!without_namespace.contains(part), "{part}");
    }
}

#[test]
fn a_day_with_a_hundred_thousand_events_is_drawn_in_time() {
    let begun = std::time::Instant::now();
    let page = timeline::html(&many(100_000));
    let took = begun.elapsed();
    assert!(page.contains("</html>"));
    // The goal is 2 s in an optimised build. This build is not optimised, and the machine may be busy.
    assert!(took.as_secs() < 20, "{took:?}");
    let bytes = page.len();
    let _ = writeln!(
        std::io::stderr(),
        "100,000 episodes: {took:?}, {bytes} bytes"
    );
}
