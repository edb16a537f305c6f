//! Every step but draws and grabs: [`load`] reads a campaign, a rule decides ([`decide`]),
//! [`mod@write`] lists what to write, and [`commit`] calls the script that writes it, if nothing
//! that the rule read has changed since.

pub(super) mod acts;
pub(super) mod campaign;
pub(super) mod commit;
pub(super) mod decide;
pub(super) mod due;
pub(super) mod layout;
pub(super) mod load;
pub(super) mod proposals;
pub(super) mod win;
pub(super) mod write;
