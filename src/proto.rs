//! The wire types of `tombola.v1`, generated from `proto/`, and their descriptors.
//!
//! Only `model::convert`, `grpc` and `cli` may use them.

#![allow(missing_docs, clippy::all, reason = "generated code")]

tonic::include_proto!("tombola.v1");

/// The encoded `FileDescriptorSet` of all of `proto/` with its imports: for reflection and the JSON
/// mapping.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/tombola_v1.binpb"));
