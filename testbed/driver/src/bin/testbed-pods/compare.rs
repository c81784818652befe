//! Two kubelets at work on one runtime, as far as pods live by them: one alone, one behind a guard.
//!
//! Each relists every second, and starts its own container again once it sees that it exited. In
//! the middle of a fault the containers of both are killed.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use cri::Endpoint;
use testbed_driver::{ContainerState, Driver, Error};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// A kubelet's relist period, and after how long without one its node is NotReady.
const PERIOD: Duration = Duration::from_secs(1);
const THRESHOLD: Duration = Duration::from_secs(180);

/// How often a line is printed.
const LINE: Duration = Duration::from_secs(5);

/// What one kubelet has done.
struct Seen {
    relisted: Instant,
    /// When its container was killed, and how long it took until it ran again.
    killed: Option<Instant>,
    restarted: Option<Duration>,
}

/// Compares for a time; `pods` are the pods of the kubelet alone and of that behind `guard`.
pub(crate) async fn compare(
    driver: &Driver,
    guard: &Endpoint,
    pods: [&str; 2],
    container: &str,
    time: Duration,
) -> Result<(), Error> {
    // As patient as a kubelet is.
    let alone = driver.clone().with_deadline(Duration::from_secs(120));
    let behind = alone.through(guard);
    let start = Instant::now();
    let seen = [alone, behind].map(|driver| {
        let seen = Seen {
            relisted: start,
            killed: None,
            restarted: None,
        };
        (driver, Rc::new(RefCell::new(seen)))
    });
    for ((driver, seen), pod) in seen.iter().zip(pods) {
        let (driver, seen) = (driver.clone(), seen.clone());
        spawn_local(relist(driver, seen, pod.to_owned(), container.to_owned()));
    }
    print(&["", "kubelet alone", "kubelet behind pleg guard"]);
    while start.elapsed() < time {
        sleep(LINE).await;
        if seen[0].1.borrow().killed.is_none() {
            for ((_, seen), pod) in seen.iter().zip(pods) {
                let id = driver.running_container(pod, container).await?;
                driver.kill(&id, driver.pid(&id).await?)?;
                seen.borrow_mut().killed = Some(Instant::now());
            }
            let what = "one container killed";
            print(&["", what, what]);
        }
        let seconds = format!("{:3} s", start.elapsed().as_secs());
        let [alone, behind] = [0, 1].map(|of: usize| seen[of].1.borrow().line());
        print(&[&seconds, &alone, &behind]);
    }
    let [alone, behind] = [0, 1].map(|of: usize| seen[of].1.borrow().end());
    let end = format!(
        "\nOne container is stuck. The kubelet alone {alone}; the kubelet behind the guard {behind}.\n"
    );
    say(&end);
    Ok(())
}

async fn relist(driver: Driver, seen: Rc<RefCell<Seen>>, pod: String, container: String) {
    loop {
        sleep(PERIOD).await;
        let asked = Instant::now();
        let Ok(pods) = driver.pods().await else {
            continue;
        };
        seen.borrow_mut().relisted = asked;
        let Some(found) = pods.into_iter().find(|found| found.is(&pod)) else {
            continue;
        };
        let exited = found
            .newest(&container)
            .is_ok_and(|newest| newest.state == ContainerState::ContainerExited);
        if exited && driver.restart_container(&found, &container).await.is_ok() {
            let mut seen = seen.borrow_mut();
            seen.restarted = seen.killed.map(|killed| killed.elapsed());
        }
    }
}

impl Seen {
    /// For how long no relist was good.
    fn age(&self) -> Duration {
        self.relisted.elapsed().saturating_sub(PERIOD)
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
                let left = THRESHOLD.saturating_sub(age).as_secs();
                let age = age.as_secs();
                format!("has not relisted for {age} s (its node is NotReady in {left} s)")
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
    say(&format!("{time:5}  {alone:48}  {behind}\n"));
}

fn say(text: &str) {
    // A reader that has seen enough is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}
