//! `tombola completions`: writes the completion script of a shell.

use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell, generate};

use super::{client::Outcome, output::say};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola completions bash > ~/.local/share/bash-completion/completions/tombola
  tombola completions zsh > \"${fpath[1]}/_tombola\"
  tombola completions fish > ~/.config/fish/completions/tombola.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: KnownShell,
}

/// The shells that have completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions of this command line.
pub(super) fn run(args: &CompletionsArgs, mut command: Command) -> Outcome {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, "tombola", &mut script);
    say(&String::from_utf8_lossy(&script));
    Ok(())
}
