//! `pleg run`: the pods of a folder of manifests on a simulated runtime.

mod ends;
mod manifests;
mod node;
mod once;
mod options;
mod pods;
