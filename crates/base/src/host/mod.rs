//! The host: reads that may block run in their own threads, and files and sockets are replaced atomically.

mod blocking;
mod directories;
mod ids;
mod process;
mod replace;
mod socket_file;
mod state;

pub use blocking::Blocking;
pub use directories::{id_directories, is_id, state_directories, task_directories};
pub use ids::{IdSource, Ids, ids_in, no_ids, read_ids, runtime_ids};
pub use process::{
    EndSignal, ProcessStat, ProcessStatus, RUNC_OVERDUE_AFTER, RuncCommand, has_ended, is_runc,
    is_shim,
};
pub use replace::{UNFINISHED, replace};
pub use socket_file::{SocketError, beside, bind, check_free, make_directory};
pub use state::{guard_socket, named_state_directory, state_directory, state_file};
