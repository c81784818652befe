//! Two imitated kubelets on one runtime: one without a guard, and one behind a guard.
//!
//! Each relists every second, and restarts its own container after a relist shows that it exited. During
//! a fault the containers of both are killed.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use cri::Endpoint;
use testbed_driver::{ContainerState, Driver, Error};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// A kubelet's relist period.
const RELIST_PERIOD: Duration = Duration::from_secs(1);

/// The node is NotReady if its kubelet has not relisted for this long.
const NOT_READY_AFTER: Duration = Duration::from_secs(180);

/// The time between two lines of output.
const LINE_PERIOD: Duration = Duration::from_secs(5);

/// The progress of one kubelet.
struct Progress {
    /// When the kubelet's last successful relist began.
    relisted: Instant,
    /// When the kubelet's container was killed.
    killed: Option<Instant>,
    /// How long after that the container was restarted.
    restarted: Option<Duration>,
}

/// Compares the two kubelets for this time. `pods` are the pod of the kubelet without a guard and the pod
/// of the kubelet behind `guard`.
pub(crate) async fn compare(
    driver: &Driver,
    guard: &Endpoint,
    pods: [&str; 2],
    container: &str,
    time: Duration,
) -> Result<(), Error> {
    // The deadline of a kubelet's calls.
    let alone = driver.clone().with_deadline(Duration::from_secs(120));
    let behind = alone.through(guard);
    let start = Instant::now();
    let progress = [alone, behind].map(|driver| {
        let progress = Progress {
            relisted: start,
            killed: None,
            restarted: None,
        };
        (driver, Rc::new(RefCell::new(progress)))
    });
    for ((driver, progress), pod) in progress.iter().zip(pods) {
        let (driver, progress) = (driver.clone(), progress.clone());
        let (pod, container) = (pod.to_owned(), container.to_owned());
        spawn_local(relist(driver, progress, pod, container));
    }
    print(&["", "kubelet without a guard", "kubelet behind pleg guard"]);
    while start.elapsed() < time {
        sleep(LINE_PERIOD).await;
        if progress[0].1.borrow().killed.is_none() {
            for ((_, progress), pod) in progress.iter().zip(pods) {
                let id = driver.running_container(pod, container).await?;
                driver.kill(&id, driver.pid(&id).await?)?;
                progress.borrow_mut().killed = Some(Instant::now());
            }
            let event = "one container killed";
            print(&["", event, event]);
        }
        let seconds = format!("{:3} s", start.elapsed().as_secs());
        let [alone, behind] = [0, 1].map(|kubelet: usize| progress[kubelet].1.borrow().line());
        print(&[&seconds, &alone, &behind]);
    }
    let [alone, behind] = [0, 1].map(|kubelet: usize| progress[kubelet].1.borrow().end());
    let end = format!(
        "\nOne container is stuck. The kubelet without a guard {alone}; the one behind the guard {behind}.\n"
    );
    write(&end);
    Ok(())
}

async fn relist(driver: Driver, progress: Rc<RefCell<Progress>>, pod: String, container: String) {
    loop {
        sleep(RELIST_PERIOD).await;
        let began = Instant::now();
        let Ok(pods) = driver.pods().await else {
            continue;
        };
        progress.borrow_mut().relisted = began;
        let Some(found) = pods.into_iter().find(|found| found.is(&pod)) else {
            continue;
        };
        let exited = found
            .newest(&container)
            .is_ok_and(|newest| newest.state == ContainerState::ContainerExited);
        if exited && driver.restart_container(&found, &container).await.is_ok() {
            let mut progress = progress.borrow_mut();
            progress.restarted = progress.killed.map(|killed| killed.elapsed());
        }
    }
}

impl Progress {
    /// How long no relist has succeeded, beyond the period.
    fn age(&self) -> Duration {
        self.relisted.elapsed().saturating_sub(RELIST_PERIOD)
    }

    fn line(&self) -> String {
        let relist = match self.age() {
            age if age < Duration::from_secs(3) => "relists".to_owned(),
            age => format!("no relist for {} s", age.as_secs()),
        };
        let container = match (self.killed, self.restarted) {
            (None, _) => String::new(),
            (Some(_), Some(after)) => {
                format!("; container restarted after {:.1} s", after.as_secs_f64())
            }
            (Some(killed), None) => {
                format!("; container down for {} s", killed.elapsed().as_secs())
            }
        };
        format!("{relist}{container}")
    }

    fn end(&self) -> String {
        let relist = match self.age() {
            age if age < Duration::from_secs(3) => "relists every second".to_owned(),
            age => {
                let left = NOT_READY_AFTER.saturating_sub(age).as_secs();
                let age = age.as_secs();
                format!("has not relisted for {age} s (its node will be NotReady in {left} s)")
            }
        };
        let container = match (self.killed, self.restarted) {
            (Some(_), Some(after)) => format!(
                " and has restarted its killed container after {:.1} s",
                after.as_secs_f64()
            ),
            (Some(_), None) => " and has not restarted its killed container".to_owned(),
            (None, _) => String::new(),
        };
        format!("{relist}{container}")
    }
}

fn print(cells: &[&str; 3]) {
    let [time, alone, behind] = cells;
    write(&format!("{time:5}  {alone:48}  {behind}\n"));
}

fn write(text: &str) {
    // A reader may close its end early.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}
