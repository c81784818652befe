//! What each verb does, in terms of the library.

use std::time::{Duration, Instant};

use testbed_driver::{ContainerSpec, Driver, Error, Pod, PodSpec};

use crate::args::{Dead, One, Run};
use crate::progress::Progress;

pub(crate) async fn run(driver: &Driver, wanted: &Run) -> Result<(), Error> {
    let specs = specs(wanted);
    refuse_second(driver, &specs).await?;
    let progress = Progress::new("pods", specs.len());
    let pods = driver.run_pods(&specs, |done| progress.show(done)).await?;
    drop(progress);
    for pod in pods {
        println!("{}", pod.sandbox_id);
    }
    Ok(())
}

pub(crate) async fn dead(driver: &Driver, wanted: &Dead) -> Result<(), Error> {
    let spec = PodSpec::new(&wanted.pod);
    refuse_second(driver, std::slice::from_ref(&spec)).await?;
    let pod = driver.run_pod(&spec).await?;
    let count = usize::from(wanted.count);
    let progress = Progress::new("containers", count);
    driver
        .run_dead(&pod, count, |done| progress.show(done))
        .await?;
    drop(progress);
    println!("{}", pod.sandbox_id);
    Ok(())
}

pub(crate) async fn restart(driver: &Driver, one: &One) -> Result<(), Error> {
    let pod = driver.pod(&one.pod).await?;
    let next = driver.restart_container(&pod, &one.container).await?;
    println!("{}", next.id);
    Ok(())
}

pub(crate) async fn kill(driver: &Driver, one: &One) -> Result<(), Error> {
    let id = driver.running_container(&one.pod, &one.container).await?;
    driver.kill_container(&id).await
}

pub(crate) async fn exit(driver: &Driver, one: &One) -> Result<(), Error> {
    let id = driver.running_container(&one.pod, &one.container).await?;
    driver.stop_container(&id).await
}

pub(crate) async fn lock(driver: &Driver, one: &One, time: Duration) -> Result<(), Error> {
    let id = driver.running_container(&one.pod, &one.container).await?;
    let begin = Instant::now();
    let mut update = driver.hold_update(&id).await;
    if !update.is_held() {
        update.answered().await?;
        return Err(Error::NotHeld {
            pod: one.pod.clone(),
        });
    }
    eprintln!("UpdateContainerResources is outstanding; it is given up after {time:?}");
    update.wait(time.saturating_sub(begin.elapsed())).await;
    if update.is_held() {
        return Ok(());
    }
    eprintln!("the runtime answered after {:.1?}", begin.elapsed());
    update.answered().await
}

/// No pods: all of them. A pod with several sandboxes is removed as a whole.
pub(crate) async fn rm(driver: &Driver, names: &[String]) -> Result<(), Error> {
    let mut there = driver.sandboxes().await?;
    if let Some(missing) = names
        .iter()
        .find(|name| !there.iter().any(|pod| pod.is(name)))
    {
        return Err(Error::NoPod(missing.clone()));
    }
    let is_meant = |pod: &Pod| names.is_empty() || names.iter().any(|name| pod.is(name));
    there.retain(is_meant);
    let progress = Progress::new("pods removed", there.len());
    driver.remove_pods(&there, |done| progress.show(done)).await
}

fn specs(wanted: &Run) -> Vec<PodSpec> {
    let names = match wanted.count {
        None => vec![wanted.name.clone()],
        Some(count) => (0..count)
            .map(|number| format!("{}-{number}", wanted.name))
            .collect(),
    };
    let command: Vec<&str> = match &wanted.command {
        None => Vec::new(),
        Some(line) => vec!["sh", "-c", line],
    };
    let spec = |name| PodSpec {
        namespace: wanted.namespace.clone(),
        network: wanted.network.into(),
        containers: wanted
            .containers
            .iter()
            .map(|container| ContainerSpec::new(container, &command))
            .collect(),
        ..PodSpec::new(name)
    };
    names.into_iter().map(spec).collect()
}

/// The runtime would take a second pod of the same name, since its uid differs; no command
/// could distinguish the two then.
async fn refuse_second(driver: &Driver, specs: &[PodSpec]) -> Result<(), Error> {
    let there = driver.sandboxes().await?;
    let is_there = |spec: &&PodSpec| {
        there
            .iter()
            .any(|pod| (&pod.namespace, &pod.name) == (&spec.namespace, &spec.name))
    };
    match specs.iter().find(is_there) {
        Some(second) => Err(Error::PodExists(second.name.clone())),
        None => Ok(()),
    }
}
