//! One of the two lists over gRPC: how it is requested, and its last rows.
//!
//! ```text
//!   whole --above the receive limit--> in a stream of messages (KEP-5825)
//!     ^                                    |  the runtime has no such method
//!     \---- fails, with the size error ----/
//! ```

use std::sync::Mutex;

use cri::fields::Malformed;
use cri::{ApiVersion, Client, Rpc, v1};

use super::rows::{Reading, Rows};
use super::{CallError, Listing};

/// A list: its two methods, which of them is used, and the rows of the last answer.
#[derive(Debug)]
pub(super) struct List<Row> {
    whole: Rpc,
    streamed: Rpc,
    way: Mutex<Way>,
    rows: Mutex<Rows<Row>>,
}

/// How the list is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In one message, and as a stream if that is too large.
    Whole,
    /// As a stream, because one message was too large.
    Streamed,
    /// In one message: the runtime has no stream of it.
    OnlyWhole,
}

impl<Row> List<Row> {
    pub(super) fn new(whole: Rpc, streamed: Rpc) -> Self {
        Self {
            whole,
            streamed,
            way: Mutex::new(Way::Whole),
            rows: Mutex::default(),
        }
    }

    /// Forgets which way works, because the runtime may be another one.
    pub(super) fn forget_way(&self) {
        self.set_way(Way::Whole);
    }

    /// Begins to read an answer, and takes the last rows to compare it with. If the list fails, no rows are
    /// kept, and the next answer is decoded completely.
    pub(super) fn read(&self) -> Reading<Row> {
        std::mem::take(&mut *self.rows.lock().expect("no panic while it is held")).read()
    }

    /// Keeps the rows, and returns them.
    pub(super) fn keep(&self, rows: Rows<Row>, bytes: usize) -> Listing<Row> {
        let listing = Listing {
            rows: rows.all(),
            bytes,
        };
        *self.rows.lock().expect("no panic while it is held") = rows;
        listing
    }

    /// Requests the list; returns its size in bytes.
    pub(super) async fn request(
        &self,
        client: &Client,
        api: ApiVersion,
        mut each: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<usize, CallError> {
        // Without a filter, the requests of all four methods are empty.
        let request = v1::ListContainersRequest::default;
        let way = *self.way.lock().expect("no panic while it is held");
        let too_large = if way == Way::Streamed {
            None
        } else {
            let answer = client.list(api, self.whole, request(), &mut each).await;
            match answer.map_err(CallError::from) {
                Err(error @ CallError::TooLarge(_)) if way == Way::Whole => Some(error),
                answer => return answer,
            }
        };
        let answer = client.streamed_list(api, self.streamed, request(), each);
        let answer = answer.await.map_err(CallError::from);
        match (&answer, too_large) {
            (Ok(_), _) => self.set_way(Way::Streamed),
            (Err(CallError::Unimplemented(_)), Some(too_large)) => {
                self.set_way(Way::OnlyWhole);
                return Err(too_large);
            }
            // The runtime has been replaced by another one.
            (Err(CallError::Unimplemented(_)), None) => self.set_way(Way::Whole),
            (Err(_), _) => {}
        }
        answer
    }

    fn set_way(&self, way: Way) {
        *self.way.lock().expect("no panic while it is held") = way;
    }
}
