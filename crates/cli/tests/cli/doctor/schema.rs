//! The published schema describes the report.

use pleg::runtime::Rpc;
use sim::Fault;

use super::{ALONE, doctor, three_pods};
use crate::support::{Pleg, Schema};

#[test]
fn the_schema_describes_the_report_on_a_healthy_node_and_while_a_list_is_not_answered() {
    let schema = Schema::of("doctor");
    let runtime = three_pods();
    let report = doctor(&runtime, &["-o", "json"]).assert_code(0).value();
    schema.assert_describes(&report);
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert!(!report["findings"].as_array().unwrap().is_empty());
    schema.assert_describes(&report);
}

#[test]
fn the_schema_describes_the_report_without_a_runtime() {
    let args = ["doctor", "-r", "/nowhere/runtime.sock", "-o", "json"];
    let args = [&args[..], &ALONE].concat();
    let report = Pleg::new(&args).run().assert_code(1).value();
    Schema::of("doctor").assert_describes(&report);
}
