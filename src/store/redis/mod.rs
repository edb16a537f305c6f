//! The store on Redis: one server, Sentinel or a cluster.

mod checks;
mod connect;
mod fault;
mod fault_kind;
mod pool;
mod script;
mod url;

pub use checks::{CheckError, Checked, check};
pub use connect::{Connections, Master};
pub use fault::Fault;
pub use fault_kind::FaultKind;
pub use pool::SetupError;
pub use script::Script;
pub use url::{RedisUrl, UrlError};
