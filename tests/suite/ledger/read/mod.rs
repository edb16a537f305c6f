//! Reading what is settled.

mod activity;
mod codes;
mod commands;
mod lists;
mod refusals;
mod removed;
mod rig;
mod rows;
mod year;
