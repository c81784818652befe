//! The verbs, as calls of the library.

use std::time::{Duration, Instant};

use testbed_driver::{ContainerSpec, Driver, Error, Pod, PodSpec};

use crate::args::{Dead, One, Run};
use crate::progress::Progress;

pub(crate) async fn run(driver: &Driver, options: &Run) -> Result<(), Error> {
    let specs = specs(options);
    refuse_second(driver, &specs).await?;
    let progress = Progress::new("pods", specs.len());
    let pods = driver.run_pods(&specs, |done| progress.show(done)).await?;
    drop(progress);
    for pod in pods {
        println!("{}", pod.sandbox_id);
    }
    Ok(())
}

pub(crate) async fn dead(driver: &Driver, options: &Dead) -> Result<(), Error> {
    let spec = PodSpec::new(&options.pod);
    refuse_second(driver, std::slice::from_ref(&spec)).await?;
    let pod = driver.run_pod(&spec).await?;
    let count = usize::from(options.count);
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
    eprintln!("UpdateContainerResources is outstanding; it is cancelled after {time:?}");
    update.wait(time.saturating_sub(begin.elapsed())).await;
    if update.is_held() {
        return Ok(());
    }
    eprintln!("the runtime answered after {:.1?}", begin.elapsed());
    update.answered().await
}

/// Removes the named pods, or all pods if none is named. Removes all sandboxes of a pod.
pub(crate) async fn rm(driver: &Driver, names: &[String]) -> Result<(), Error> {
    let mut existing = driver.sandboxes().await?;
    if let Some(missing) = names
        .iter()
        .find(|name| !existing.iter().any(|pod| pod.is(name)))
    {
        return Err(Error::NoPod(missing.clone()));
    }
    let is_named = |pod: &Pod| names.is_empty() || names.iter().any(|name| pod.is(name));
    existing.retain(is_named);
    let progress = Progress::new("pods removed", existing.len());
    driver
        .remove_pods(&existing, |done| progress.show(done))
        .await
}

fn specs(options: &Run) -> Vec<PodSpec> {
    let names = match options.count {
        None => vec![options.name.clone()],
        Some(count) => (0..count)
            .map(|number| format!("{}-{number}", options.name))
            .collect(),
    };
    let command: Vec<&str> = match &options.command {
        None => Vec::new(),
        Some(line) => vec!["sh", "-c", line],
    };
    let spec = |name| PodSpec {
        namespace: options.namespace.clone(),
        network: options.network.into(),
        containers: options
            .containers
            .iter()
            .map(|container| ContainerSpec::new(container, &command))
            .collect(),
        ..PodSpec::new(name)
    };
    names.into_iter().map(spec).collect()
}

/// Refuses a pod whose name exists already. The runtime would accept it, because its UID differs,
/// but no command could distinguish the two.
async fn refuse_second(driver: &Driver, specs: &[PodSpec]) -> Result<(), Error> {
    let existing = driver.sandboxes().await?;
    let exists = |spec: &&PodSpec| {
        existing
            .iter()
            .any(|pod| (&pod.namespace, &pod.name) == (&spec.namespace, &spec.name))
    };
    match specs.iter().find(exists) {
        Some(second) => Err(Error::PodExists(second.name.clone())),
        None => Ok(()),
    }
}
