//! The services of one runtime: the faults of each call are applied before it is answered.

use std::future::pending;
use std::pin::Pin;

use cri::{ApiVersion, Rpc};
use futures_util::Stream;
use pleg::model::id::Id;
use pleg::runtime::{CallError, NoConnection, Unreachable};
use tonic::{Response, Status};

use super::mangle;
use crate::Sim;
use crate::faults::{AnswerForm, Malformation, StatusOf};
use crate::world::World;

/// The services of one runtime.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) sim: Sim,
    pub(super) api: ApiVersion,
}

pub(super) type Answer<T> = Result<Response<T>, Status>;

/// The messages of a stream.
pub(super) type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The number of items in one message of a streamed list.
const ITEMS_PER_MESSAGE: usize = 100;

pub(super) fn in_batches<Item, T: Send + 'static>(
    items: Vec<Item>,
    batch: impl Fn(&[Item]) -> T,
) -> Messages<T> {
    let batches = items.chunks(ITEMS_PER_MESSAGE);
    let messages: Vec<_> = batches.map(|items| Ok(batch(items))).collect();
    Box::pin(futures_util::stream::iter(messages))
}

pub(super) fn require_streamed_lists(sim: &Sim) -> Result<(), Status> {
    match sim.settings().streams_lists {
        true => Ok(()),
        false => Err(Status::unimplemented(
            "unknown method for service runtime.v1.RuntimeService",
        )),
    }
}

impl Service {
    /// Applies the faults of a call, and answers it.
    pub(super) async fn answer<T>(
        &self,
        rpc: Rpc,
        id: Option<&Id>,
        answer: impl FnOnce(&Sim) -> Result<T, Status>,
    ) -> Answer<T> {
        let answer = |sim: &Sim, _| answer(sim);
        self.answer_status(rpc, id, answer, |_| {}).await
    }

    /// Applies the faults of a list call, and answers it.
    pub(super) async fn answer_list<T>(&self, rpc: Rpc, list: impl Fn(&World) -> T) -> Answer<T> {
        let listed = self.sim.list(rpc, list).await;
        let (message, form) = on_the_wire(listed).await?;
        Ok(mangle::marked(message, form))
    }

    /// Applies the faults of a status call, and answers it. A fault may replace the status with that of
    /// another id, or remove it.
    pub(super) async fn answer_status<T>(
        &self,
        rpc: Rpc,
        id: Option<&Id>,
        answer: impl FnOnce(&Sim, StatusOf) -> Result<T, Status>,
        remove_status: impl FnOnce(&mut T),
    ) -> Answer<T> {
        let form = on_the_wire(self.sim.pass_faults(rpc, id).await).await?;
        let of = match form {
            AnswerForm::Malformed(Malformation::OfAnother) => StatusOf::Another,
            _ => StatusOf::Requested,
        };
        let mut message = answer(&self.sim, of)?;
        if form == AnswerForm::Malformed(Malformation::WithoutStatus) {
            remove_status(&mut message);
        }
        Ok(mangle::marked(message, form))
    }
}

/// The result as a client receives it. If the connection is lost, no answer is sent.
pub(super) async fn on_the_wire<T>(result: Result<T, CallError>) -> Result<T, Status> {
    match result {
        Err(CallError::Unavailable(Unreachable {
            cause: NoConnection::Lost,
            ..
        })) => pending().await,
        result => result.map_err(status_of),
    }
}

/// The gRPC status of an error.
fn status_of(error: CallError) -> Status {
    match error {
        CallError::Unavailable(why) => Status::unavailable(&*why.message),
        CallError::NotFound(what) => Status::not_found(&*what),
        CallError::Unimplemented(what) => Status::unimplemented(&*what),
        CallError::TooLarge(figures) => Status::resource_exhausted(format!(
            "grpc: trying to send message larger than max ({figures})"
        )),
        CallError::Malformed(what) => Status::internal(format!("failed to decode: {what}")),
        CallError::Refused(why) => Status::unknown(&*why),
        // Only clients report this, not runtimes.
        CallError::Withheld => Status::unknown(error.to_string()),
    }
}
