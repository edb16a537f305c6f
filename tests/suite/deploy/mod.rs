//! What `deploy/` has: the image's files, the manifests for Kubernetes and the compose file. They
//! are rendered, compared with schemas, and held against the program: its options, variables, ports
//! and paths.

mod apply_over_tls;
mod components;
mod image;
mod jobs;
mod manifests;
mod pods;
mod prometheus;
mod render;
mod restore;
pub mod times;
