//! x
#![allow(clippy::print_stdout)]
use cri::{ApiVersion, Client, v1};
use pleg::runtime::{Runtime, grpc::GrpcRuntime};
use std::sync::Arc;
use std::time::Duration;
fn cpu() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let e: cri::Endpoint = std::env::args().nth(1).unwrap().parse()?;
    let n = if std::env::var("GAP").is_ok() {
        10u64
    } else {
        300
    };
    for mode in std::env::args().skip(2) {
        let c = Client::new(&e, 16 << 20);
        let g = GrpcRuntime::new(&e, 16 << 20);
        let p = if mode == "pleg" {
            Some(pleg::Pleg::start(
                Arc::new(GrpcRuntime::new(&e, 16 << 20)),
                pleg::Config {
                    relist_period: if std::env::var("TIGHT").is_ok() {
                        Duration::from_nanos(1)
                    } else {
                        Duration::from_millis(
                            std::env::var("GAP").map_or(10, |g| g.parse().unwrap()),
                        )
                    },
                    ..Default::default()
                },
                pleg::Environment {
                    endpoint: "x".into(),
                    clock: pleg::wall_time::system_clock(),
                    observer: Arc::new(pleg::NoObserver),
                },
            ))
        } else {
            None
        };
        let mut cost = Vec::new();
        tokio::time::sleep(Duration::from_secs(2)).await;
        if let Some(p) = p {
            let c1 = p.status().await?.relist.count;
            let a = cpu();
            tokio::time::sleep(Duration::from_secs(5)).await;
            let b = cpu();
            let c2 = p.status().await?.relist.count;
            println!(
                "{mode:8} {:.3} ms over {}",
                (b - a) as f64 / 1e6 / (c2 - c1) as f64,
                c2 - c1
            );
            continue;
        }
        let total = cpu();
        for _ in 0..n {
            if !std::env::var("TIGHT").is_ok() {
                tokio::time::sleep(Duration::from_millis(
                    std::env::var("GAP").map_or(10, |g| g.parse().unwrap()),
                ))
                .await;
            }
            let a = cpu();
            match mode.as_str() {
                "raw" => {
                    let (x, y) = tokio::join!(
                        c.list(
                            ApiVersion::V1,
                            "ListPodSandbox",
                            v1::ListPodSandboxRequest::default(),
                            |_| Ok(())
                        ),
                        c.list(
                            ApiVersion::V1,
                            "ListContainers",
                            v1::ListContainersRequest::default(),
                            |_| Ok(())
                        )
                    );
                    x?;
                    y?;
                }
                "prost" => {
                    let x: v1::ListPodSandboxResponse = c
                        .unary(
                            ApiVersion::V1,
                            "ListPodSandbox",
                            v1::ListPodSandboxRequest::default(),
                        )
                        .await?;
                    let y: v1::ListContainersResponse = c
                        .unary(
                            ApiVersion::V1,
                            "ListContainers",
                            v1::ListContainersRequest::default(),
                        )
                        .await?;
                    std::hint::black_box((x, y));
                }
                _ => {
                    let (x, y) = tokio::join!(g.list_sandboxes(), g.list_containers());
                    std::hint::black_box((x?, y?));
                }
            }
            cost.push(cpu() - a);
        }
        cost.sort();
        println!(
            "{mode:8} total {:.3} p50 {:.3} ms  mean {:.3} ms",
            (cpu() - total) as f64 / 1e6 / n as f64,
            cost[cost.len() / 2] as f64 / 1e6,
            cost.iter().sum::<u64>() as f64 / 1e6 / n as f64
        );
    }
    Ok(())
}
