//! Reading what is settled.

mod rows;
