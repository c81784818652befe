//! Requests compared as text, and every call against a simulated runtime.

mod calls;
mod oom_and_resources;
mod requests;
