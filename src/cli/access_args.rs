//! The options of the server that say who may call.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{
    grpc::access::{Access, Reflection},
    model::Problems,
};

/// Who may call the server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Access")]
pub(super) struct AccessArgs {
    /// The access file: identities, roles and bindings. It is read again when it changes. Without
    /// it, everybody who reaches the server may do everything
    #[arg(long, env = "TOMBOLA_ACCESS", value_name = "FILE")]
    access: Option<PathBuf>,
    /// Who may ask for the API by reflection
    #[arg(
        long,
        env = "TOMBOLA_REFLECTION",
        value_name = "WHO",
        value_enum,
        default_value_t = Who::On
    )]
    reflection: Who,
}

/// Who may call reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    /// Everybody who reaches the server
    On,
    /// Nobody
    Off,
    /// Identities with the permission admin
    Admin,
}

impl AccessArgs {
    /// Reads the access file.
    pub(super) fn open(&self, problems: &mut Problems) -> Access {
        if self.reflection == Who::Admin && self.access.is_none() {
            let text =
                "admin is a permission of an access file: name one with --access, or say off";
            problems.add("--reflection", text);
        }
        let Some(file) = &self.access else {
            return Access::default();
        };
        let opened = Access::open(file);
        opened.unwrap_or_else(|error| {
            problems.add("--access", error.to_string());
            Access::default()
        })
    }

    /// Who may call reflection.
    pub(super) fn reflection(&self) -> Reflection {
        match self.reflection {
            Who::On => Reflection::On,
            Who::Off => Reflection::Off,
            Who::Admin => Reflection::Admin,
        }
    }
}
