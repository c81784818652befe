//! Requests, as text that can be read and compared; and every call against a simulated runtime.

mod calls;
mod promises;
mod requests;
