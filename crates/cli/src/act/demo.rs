//! `pleg demo`: a simulated node on which one container holds containerd's status lock, the most common
//! cause. It shows what a kubelet would report, and what pleg reports.
//!
//! Only the node is simulated: the library observes it as it would a real one.

use std::sync::Arc;
use std::time::Duration;

use pleg::out::record::Record;
use pleg::out::subscribers::Subscription;
use pleg::{Config, Environment, NoObserver, Pleg, no_ids};
use sim::Sim;
use tokio::time::{Instant, sleep_until};

use crate::args::{Format, Global};
use crate::{Outcome, output, signals, text};

/// What was measured with a kubelet during the same fault, which lasted 290 s.
const KUBELET: &str = "Measured with Kubernetes 1.36 on containerd 1.6: the kubelet noticed the \
                       same exit after 4 min 50 s, and its pods became NotReady after 4 min 0 s.";

const PODS: [(&str, &[&str]); 4] = [
    ("web-0", &["nginx"]),
    ("web-1", &["nginx"]),
    ("cart", &["app", "proxy"]),
    ("db", &["postgres"]),
];

/// What happens, and what is printed, at a time after the start.
struct Scene {
    /// Seconds after the start.
    at: f64,
    text: &'static str,
    happens: fn(&Sim),
    /// Whether the views of a kubelet and of pleg are printed.
    views: bool,
}

fn scenes() -> Vec<Scene> {
    let scene = |at, text, happens: fn(&Sim), views| Scene {
        at,
        text,
        happens,
        views,
    };
    let say = |at, text, happens| scene(at, text, happens, false);
    let compare = |at| scene(at, "", |_| {}, true);
    vec![
        say(
            0.0,
            "A simulated node with four pods. Their containers start and exit.",
            |_| {},
        ),
        say(3.0, "", |sim| restart(sim, "web-0", "nginx")),
        say(
            6.0,
            "Now one container hangs: an update of db/postgres holds its status lock. \
             ListContainers hangs for the whole node, the event stream sends nothing, and a \
             kubelet no longer sees any change.",
            hold_status_lock,
        ),
        compare(9.0),
        // Half-way between two sweeps: a sweep at the same moment would also show the exit.
        say(
            11.5,
            "Other containers still exit, and pidfds report it:",
            |sim| die(sim, "cart", "app", 1),
        ),
        say(13.5, "", |sim| die(sim, "web-1", "nginx", 137)),
        compare(16.0),
        say(17.5, "", |sim| die(sim, "web-0", "nginx", 2)),
        compare(20.0),
        say(
            22.0,
            "The lock is released. Nothing was restarted, and nothing is lost:",
            Sim::lift_all,
        ),
        compare(24.0),
    ]
}

fn hold_status_lock(sim: &Sim) {
    sim.status_lock("db", "postgres");
}

fn die(sim: &Sim, pod: &str, container: &str, code: i32) {
    sim.kill(pod, container);
    sim.exit(pod, container, code);
}

fn restart(sim: &Sim, pod: &str, container: &str) {
    let now = sim.now();
    sim.world().pod(pod).restart(container, 137, now);
}

pub async fn run(global: &Global) -> anyhow::Result<Outcome> {
    let interrupted = signals::interrupted()?;
    let sim = Sim::new();
    for (pod, containers) in PODS {
        sim.run(pod, containers);
    }
    let environment = Environment {
        endpoint: "a simulated node".into(),
        clock: pleg::model::wall_time::system_clock(),
        observer: Arc::new(NoObserver),
        ids: no_ids(),
        kernel: Some(Arc::new(sim.clone())),
    };
    let pleg = Pleg::start(Arc::new(sim.clone()), Config::default(), environment);
    let records = pleg.subscribe().await?;
    tokio::select! {
        shown = show(global, &sim, &pleg, records) => shown?,
        _ = interrupted => {}
    }
    Ok(Outcome::Done)
}

async fn show(
    global: &Global,
    sim: &Sim,
    pleg: &Pleg,
    mut records: Subscription,
) -> anyhow::Result<()> {
    let is_text = global.format() == Format::Text;
    let begun = Instant::now();
    for scene in scenes() {
        let next = begun + Duration::from_secs_f64(scene.at);
        // A timer is never ready at once: without this check, records would be printed before the
        // text of a scene that begins now.
        while Instant::now() < next {
            tokio::select! {
                () = sleep_until(next) => {}
                Some(record) = records.next() => print(global, &record)?,
            }
        }
        if is_text && !scene.text.is_empty() {
            let text = format!("\n{}\n", text::styled(text::BOLD, scene.text));
            output::text(&text::fit(&text, 0, text::terminal_columns()))?;
        }
        if is_text && scene.at == 0.0 {
            output::text(&text::watch::columns(text::terminal_columns()))?;
        }
        (scene.happens)(sim);
        if is_text && scene.views {
            views(pleg).await?;
        }
    }
    if is_text {
        let title = text::styled(text::BOLD, "And a kubelet?");
        let end = format!("\n{title}\n{KUBELET}\n");
        output::text(&text::fit(&end, 0, text::terminal_columns()))?;
    }
    Ok(())
}

fn print(global: &Global, record: &Record) -> anyhow::Result<()> {
    let text = || text::watch::line(record, text::terminal_columns());
    output::show(global.format(), record, text)
}

/// Prints what a kubelet on this node would report now, and what pleg reports.
async fn views(pleg: &Pleg) -> anyhow::Result<()> {
    let status = pleg.status().await?;
    let kubelet = &status.kubelet_view.message;
    let health = text::styled(text::health_style(status.health.state), status.health.state);
    let views = format!(
        "  a kubelet: {kubelet}\n  pleg:      {health}: {}\n",
        status.health.message
    );
    output::text(&text::fit(&views, 13, text::terminal_columns()))
}
