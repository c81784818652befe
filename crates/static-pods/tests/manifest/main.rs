//! Manifests that are accepted, manifests that are refused, and the test that no field is ignored.

mod accepted;
mod every_field;
mod leaves;
mod refused;

use static_pods::manifest::{Refused, parse};
use static_pods::spec::PodSpec;

fn read(text: &str) -> Result<PodSpec, Refused> {
    parse(text.as_bytes(), "web.yaml", "node-1")
}
