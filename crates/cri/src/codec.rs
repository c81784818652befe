//! A codec that hands an answer out as the bytes that came, for [`crate::lean`].

use std::marker::PhantomData;

use bytes::{Buf, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Encodes a request as protobuf; the answer stays undecoded.
pub(crate) struct RawAnswer<Request>(PhantomData<Request>);

impl<Request> Default for RawAnswer<Request> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Request: Message + 'static> Codec for RawAnswer<Request> {
    type Encode = Request;
    type Decode = Bytes;
    type Encoder = Protobuf<Request>;
    type Decoder = Raw;

    fn encoder(&mut self) -> Self::Encoder {
        Protobuf(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        Raw
    }
}

pub(crate) struct Protobuf<Request>(PhantomData<Request>);

impl<Request: Message> Encoder for Protobuf<Request> {
    type Item = Request;
    type Error = Status;

    fn encode(&mut self, item: Request, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

pub(crate) struct Raw;

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}
