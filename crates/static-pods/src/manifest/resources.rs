//! Converts `resources` of a container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::problem::At;
use super::quantity::{self, Unit};
use super::{NEEDS_API_SERVER, has_items};
use crate::spec::Resources;

pub(super) fn read(resources: v1::ResourceRequirements, at: &At<'_>) -> Resources {
    let v1::ResourceRequirements {
        claims,
        limits,
        requests,
    } = resources;
    at.refuse("claims", has_items(&claims), NEEDS_API_SERVER);
    let limits = amounts(limits.unwrap_or_default(), &at.field("limits"));
    let requests = amounts(requests.unwrap_or_default(), &at.field("requests"));
    for (name, request, limit, unit) in [
        ("cpu", requests.cpu, limits.cpu, "m"),
        ("memory", requests.memory, limits.memory, " bytes"),
    ] {
        if let (Some(request), Some(limit)) = (request, limit)
            && request > limit
        {
            at.field("requests").key(name).invalid(format!(
                "{request}{unit} exceeds the limit of {limit}{unit}"
            ));
        }
    }
    Resources {
        cpu_request: requests.cpu.or(limits.cpu),
        cpu_limit: limits.cpu.filter(|it| *it > 0),
        memory_request: requests.memory.or(limits.memory),
        memory_limit: limits.memory.filter(|it| *it > 0),
    }
}

#[derive(Default)]
struct Amounts {
    cpu: Option<u64>,
    memory: Option<u64>,
}

fn amounts(quantities: BTreeMap<String, Quantity>, at: &At<'_>) -> Amounts {
    let mut amounts = Amounts::default();
    for (name, Quantity(text)) in quantities {
        let at = at.key(&name);
        match name.as_str() {
            "cpu" => amounts.cpu = Some(amount(&text, Unit::Thousandths, &at)),
            "memory" => amounts.memory = Some(amount(&text, Unit::Ones, &at)),
            _ => at.unsupported("only cpu and memory are"),
        }
    }
    amounts
}

/// Parses a quantity. An invalid one is reported, and 0 is returned.
pub(super) fn amount(text: &str, unit: Unit, at: &At<'_>) -> u64 {
    quantity::parse(text, unit).unwrap_or_else(|why| {
        at.invalid(why);
        0
    })
}
