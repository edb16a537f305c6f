//! Opening a store: finding, making, upgrading it, and letting it go on after losses.

pub(super) mod identity;
pub(super) mod open_error;
pub(super) mod options;
pub(super) mod recovery;
pub(super) mod upgrade;
