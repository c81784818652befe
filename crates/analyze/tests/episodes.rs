//! Episodes from saved logs: their times, kinds, culprits and source lines.

use analyze::analysis::{Analysis, Analyzer};
use episodes::{Episode, What};
use pleg_text::WallTime;

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

/// The episodes as `HH:MM:SS-HH:MM:SS what culprit`.
fn lines_of(analysis: &Analysis) -> Vec<String> {
    let clock = |time: WallTime| time.to_string()[11..19].to_owned();
    let line = |episode: &Episode| {
        let to = match episode.to {
            Some(to) if to != episode.from => format!("-{}", clock(to)),
            Some(_) => String::new(),
            None => "-".to_owned(),
        };
        let from = clock(episode.from);
        let text = format!(
            "{from}{to} {} {}",
            episode.what.title(),
            episode.subject_name()
        );
        text.trim().to_owned()
    };
    analysis.episodes.iter().map(line).collect()
}

const NOT_HEALTHY: &str = "kubelet.go:1844] skipping pod synchronization - PLEG is not healthy: \
                           pleg was last seen active";

#[test]
fn a_list_that_hangs_makes_the_node_not_ready_until_it_is_answered() {
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
        lines_of(&analysis),
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
fn an_episode_that_lasts_until_the_end_of_the_log_has_no_end() {
    let analysis = analysed(&[
        "I0506 12:33:06.000000 9 setters.go:559] Node became not ready: {Type:Ready Status:False}",
        "I0506 12:34:06.000000 9 kubelet.go:1] another line",
    ]);
    assert_eq!(lines_of(&analysis), ["12:33:06- NotReady"]);
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
    assert_eq!(lines_of(&analysis), [expected]);
}

#[test]
fn a_line_counts_as_a_sign_only_if_its_cause_was_found() {
    let analysis = analysed(&[
        "E0506 12:02:00.000000 9 x.go:1] accept4: too many open files; retrying in 1s",
        "E0506 12:02:20.000000 9 x.go:1] accept4: too many open files; retrying in 1s",
    ]);
    assert_eq!(
        lines_of(&analysis),
        ["12:02:00-12:02:20 fd-or-inotify-exhausted"]
    );
    assert_eq!(analysis.episodes[0].count, 2);
}

#[test]
fn the_year_that_a_later_line_shows_moves_every_episode() {
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

#[test]
fn a_task_that_the_kernel_reports_as_blocked_is_an_episode_until_the_last_report() {
    let forms = [
        "May 06 12:0{}:00 n1 kernel: INFO: task dockerd:1810 blocked for more than 120 seconds.",
        "May  6 12:0{}:00 n1 kernel: [450528.01] INFO: task dockerd:1810 blocked for more than 120 seconds.",
        "[Mon May  6 12:0{}:00 2024] INFO: task dockerd:1810 blocked for more than 120 seconds.",
        "2024-05-06T12:0{}:00,013688+00:00 INFO: task dockerd:1810 blocked for more than 120 seconds.",
        "2024-05-06T12:0{}:00+0000 n1 kernel: INFO: task dockerd:1810 blocked for more than 120 seconds.",
    ];
    for form in forms {
        let lines: Vec<String> = ["2", "4", "6"]
            .iter()
            .map(|minute| form.replace("{}", minute))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let analysis = analysed(&lines);
        let expected = ["12:00:00-12:06:00 task blocked dockerd (1810)"];
        assert_eq!(lines_of(&analysis), expected, "{form}");
        let episode = &analysis.episodes[0];
        assert_eq!(episode.count, 3);
        assert_eq!(episode.source.as_ref().unwrap().line, Some(1));
    }
}

#[test]
fn a_blocked_task_without_a_time_of_day_is_no_episode() {
    let analysis = analysed(&[
        "[450528.013688] INFO: task dockerd:1810 blocked for more than 328 seconds.",
        "[450528.020856]       Not tainted 5.4.89+ #1",
    ]);
    assert_eq!(lines_of(&analysis), [""; 0]);
}

const CONDITIONS: [&str; 4] = [
    "Conditions:",
    "  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason                       Message",
    "  DiskPressure     False   Mon, 06 May 2024 12:40:00 +0000   Tue, 28 May 2019 17:35:08 +0000   KubeletHasNoDiskPressure     kubelet has no disk pressure",
    "  Ready            False   Mon, 06 May 2024 14:40:00 +0200   Mon, 06 May 2024 14:33:00 +0200   KubeletNotReady              PLEG is not healthy: pleg was last seen active 10m ago",
];

#[test]
fn a_node_that_describe_shows_as_not_ready_has_been_so_since_its_last_transition() {
    let analysis = analysed(&CONDITIONS);
    assert_eq!(lines_of(&analysis), ["12:33:00- NotReady"]);
    let episode = &analysis.episodes[0];
    assert_eq!(
        episode.reason,
        "KubeletNotReady: PLEG is not healthy: pleg was last seen active 10m ago"
    );
    let until = episode.seen_until.unwrap().to_string();
    assert!(until.contains("12:40:00"), "{until}");
    let input = &analysis.inputs[0];
    let times = [input.read_from, input.read_until].map(|time| time.unwrap().to_string());
    assert!(times[0].contains("12:33:00") && times[1].contains("12:40:00"));
}

#[test]
fn a_node_whose_kubelet_stopped_posting_has_been_not_ready_since_the_api_server_noticed() {
    let row = "  Ready            Unknown   Mon, 06 May 2024 12:39:00 +0000   Mon, 06 May 2024 12:39:40 +0000   NodeStatusUnknown   Kubelet stopped posting node status.";
    let analysis = analysed(&[CONDITIONS[0], CONDITIONS[1], row]);
    assert_eq!(lines_of(&analysis), ["12:39:40- NotReady"]);
    assert!(analysis.episodes[0].reason.contains("stopped posting"));
}

#[test]
fn a_log_that_shows_when_the_node_was_ready_again_ends_what_describe_shows() {
    let mut lines = CONDITIONS.to_vec();
    lines.push(
        "I0506 12:33:01.000000 9 kubelet_node_status.go:379] Recording NodeNotReady event message \
         for node n1",
    );
    lines.push(
        "I0506 12:50:00.000000 9 kubelet_node_status.go:379] Recording NodeReady event message \
         for node n1",
    );
    assert_eq!(lines_of(&analysed(&lines)), ["12:33:00-12:50:00 NotReady"]);
}

#[test]
fn two_outages_between_which_the_log_continued_are_two_episodes() {
    let line = |time: &str, text: &str| format!("E0506 {time}.000000    1000 {text}");
    let unreachable = "remote_runtime.go:277] \"ListPodSandbox failed\" err=\"rpc error: code = Unavailable \
                       desc = connection error: dial unix /run/containerd/containerd.sock: connect: \
                       connection refused\"";
    let other = "reconciler.go:10] \"operationExecutor.VerifyControllerAttachedVolume started\"";
    let lines = [
        line("08:00:00", unreachable),
        line("08:00:05", unreachable),
        line("08:10:00", other),
        line("20:00:00", unreachable),
        line("20:00:03", unreachable),
        line("20:05:00", other),
    ];
    let analysis = analysed(&lines.each_ref().map(String::as_str));
    assert_eq!(
        lines_of(&analysis),
        [
            "08:00:00-08:00:05 runtime unreachable",
            "20:00:00-20:00:03 runtime unreachable"
        ]
    );
}
