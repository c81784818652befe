//! Saved logs become episodes: from when to when, what, who, and the line that says so.

use analyze::analysis::{Analysis, Analyzer};
use episodes::{Episode, What};
use times::WallTime;

fn analysed(lines: &[&str]) -> Analysis {
    let mut analyzer = Analyzer::new();
    let latest = "\"2024-05-06T20:00:00Z\"";
    let latest: WallTime = serde_json::from_str(latest).unwrap();
    analyzer.begin("kubelet.log", latest);
    for line in lines {
        analyzer.line(line.as_bytes(), false);
    }
    analyzer.finish()
}

/// `HH:MM:SS-HH:MM:SS what whom`, a line each.
fn told(analysis: &Analysis) -> Vec<String> {
    let clock = |time: WallTime| time.to_string()[11..19].to_owned();
    let line = |episode: &Episode| {
        let to = match episode.to {
            Some(to) if to != episode.from => format!("-{}", clock(to)),
            Some(_) => String::new(),
            None => "-".to_owned(),
        };
        let from = clock(episode.from);
        let text = format!("{from}{to} {} {}", episode.what.title(), episode.whom());
        text.trim().to_owned()
    };
    analysis.episodes.iter().map(line).collect()
}

const NOT_HEALTHY: &str = "kubelet.go:1844] skipping pod synchronization - PLEG is not healthy: \
                           pleg was last seen active";

#[test]
fn a_list_that_hangs_makes_the_node_not_ready_until_it_answers() {
    let mut lines = vec![
        "I0506 12:00:00.000000 9 server.go:1] Started kubelet".to_owned(),
        "E0506 12:32:00.000000 9 remote_runtime.go:277] ListContainers with filter from runtime service failed: rpc \
         error: code = DeadlineExceeded desc = context deadline exceeded"
            .to_owned(),
    ];
    for step in 0..7 {
        let (minute, second) = (33 + step / 12, 5 * (step % 12));
        let age = 185 + 5 * step;
        let (minutes, seconds) = (age / 60, age % 60);
        lines.push(format!(
            "I0506 12:{minute}:{second:02}.000000 9 {NOT_HEALTHY} {minutes}m{seconds}s ago; \
             threshold is 3m0s"
        ));
        if step == 1 {
            lines.push(
                "I0506 12:33:06.000000 9 kubelet_node_status.go:379] Recording NodeNotReady event \
                 message for node n1"
                    .to_owned(),
            );
        }
    }
    lines.push(
        "I0506 12:36:00.000000 9 kubelet_node_status.go:379] Recording NodeReady event message \
         for node n1"
            .to_owned(),
    );
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let analysis = analysed(&lines);
    assert_eq!(
        told(&analysis),
        [
            "12:00:00 kubelet started",
            "12:29:55-12:33:30 no relist",
            "12:30:00-12:32:00 ListContainers hangs",
            "12:33:00-12:33:30 pods are not synced",
            "12:33:06-12:36:00 NotReady",
        ]
    );
    let source = |what: What| {
        let its = |episode: &&Episode| episode.what == what;
        let episode = analysis.episodes.iter().find(its).unwrap();
        let source = episode.source.as_ref().unwrap();
        (source.file.clone(), source.line)
    };
    assert_eq!(source(What::PodsSkipped), ("kubelet.log".into(), Some(3)));
    assert_eq!(source(What::NotReady), ("kubelet.log".into(), Some(5)));
}

#[test]
fn what_has_not_ended_when_the_log_ends_has_no_end() {
    let analysis = analysed(&[
        "I0506 12:33:06.000000 9 setters.go:559] Node became not ready: {Type:Ready Status:False}",
        "I0506 12:34:06.000000 9 kubelet.go:1] another line",
    ]);
    assert_eq!(told(&analysis), ["12:33:06- NotReady"]);
}

#[test]
fn a_call_is_about_the_pod_that_its_line_names() {
    let id = "61ac7eca54e9".repeat(5) + "61ac";
    let line = format!(
        "E0506 12:02:00.000000 9 remote_runtime.go:295] ContainerStatus {id:?} from runtime \
         service failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    );
    let analysis = analysed(&[&line]);
    let expected = format!("12:00:00-12:02:00 ContainerStatus hangs {}", &id[..13]);
    assert_eq!(told(&analysis), [expected]);
}

#[test]
fn a_line_counts_as_a_sign_only_if_its_cause_was_found() {
    let analysis = analysed(&[
        "E0506 12:02:00.000000 9 x.go:1] accept4: too many open files; retrying in 1s",
        "E0506 12:02:20.000000 9 x.go:1] accept4: too many open files; retrying in 1s",
    ]);
    assert_eq!(
        told(&analysis),
        ["12:02:00-12:02:20 fd-or-inotify-exhausted"]
    );
    assert_eq!(analysis.episodes[0].count, 2);
}

#[test]
fn the_year_that_a_later_line_tells_moves_every_episode() {
    let analysis = analysed(&[
        "I0506 12:00:00.000000 9 server.go:1] Started kubelet",
        "I0506 12:33:00.000000 9 kubelet.go:1844] skipping pod synchronization - PLEG is not \
         healthy: pleg was last seen active 3m5s ago; threshold is 3m0s",
        "I0506 12:33:06.000000 9 setters.go:559] Node became not ready: {Type:Ready Status:False \
         LastHeartbeatTime:2017-05-06 12:33:06.872865742 +0000 UTC}",
    ]);
    let years = analysis.episodes.iter().map(|it| it.from.to_string());
    let years: Vec<String> = years.map(|time| time[..4].to_owned()).collect();
    assert!(
        !years.is_empty() && years.iter().all(|year| year == "2017"),
        "{years:?}"
    );
}
