//! The `pleg` command as people and scripts use it: the real binary, and runtimes on real sockets.

mod support;

mod agent_http;
mod agent_start;
mod analyzing;
mod arguments;
mod demo;
mod diagnosis;
mod doctor;
mod faults_without_agent;
mod guard;
mod hostile_clients;
mod hostile_names;
mod known_pods;
mod kubectl;
mod kubelet_metrics;
mod metrics;
mod odd_rows;
mod old_api;
mod restarts;
mod rules;
mod run;
mod saved_set;
mod schemas;
mod shipped_text;
mod sim;
mod snapshot;
mod stopping;
mod terminal;
mod timeline;
mod top;
mod watching;
mod which_agent;
mod with_agent;
mod without_agent;
mod wrong_endpoints;
