//! The `pleg` command as people and scripts meet it: the real binary, runtimes on real
//! sockets, and the letter of what was promised.

mod support;

mod agent_http;
mod agent_start;
mod analyzing;
mod arguments;
mod coming_and_going;
mod demo;
mod diagnosis;
mod doctor;
mod guard;
mod hostile_clients;
mod hostile_names;
mod known_pods;
mod kubectl;
mod kubelet_metrics;
mod looking;
mod looking_at_trouble;
mod metrics;
mod nonsense;
mod odd_rows;
mod old_api;
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
