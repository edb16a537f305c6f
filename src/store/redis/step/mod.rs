//! Every step but draws and grabs: [`load`] reads a campaign, a rule decides ([`decide`]), and
//! [`commit`] writes it if nothing that the rule read has changed since ([`mod@write`] says what).

pub(super) mod campaign;
pub(super) mod commit;
pub(super) mod decide;
pub(super) mod due;
pub(super) mod layout;
pub(super) mod load;
pub(super) mod write;
