//! How data are written in Redis, and how scripts are called: names of keys, packed values, scripts
//! and their replies.

pub(super) mod asked;
pub(super) mod blocks;
pub(super) mod codec;
mod constants;
pub(super) mod counts;
pub(super) mod effect;
pub(super) mod gate;
pub(super) mod ids;
pub(super) mod keys;
pub(super) mod plans;
pub(super) mod record;
pub(super) mod reply;
mod results;
pub(super) mod script;
pub(super) mod scripts;
pub(super) mod version;
pub(super) mod words;
