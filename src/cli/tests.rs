//! Arguments, and what the help says.

use super::*;

fn each(command: &ClapCommand, check: &mut impl FnMut(&ClapCommand)) {
    check(command);
    for command in command.get_subcommands() {
        each(command, check);
    }
}

#[test]
fn the_command_line_is_sound() {
    command().debug_assert();
}

/// Options without a variable. Set for a whole shell, the variable would draw many times,
/// confirm questions that were never asked, or make one change look like a retry of another.
const FOR_ONE_COMMAND: [&str; 3] = ["count", "yes", "request-id"];

#[test]
fn every_option_has_a_variable_but_those_for_one_command() {
    each(&command(), &mut |command| {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long().filter(|long| *long != "help") else {
                continue;
            };
            if FOR_ONE_COMMAND.contains(&long) {
                assert_eq!(arg.get_env(), None, "--{long}");
                continue;
            }
            let name = arg
                .get_env()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let ending = long.replace('-', "_").to_uppercase();
            assert!(
                name.starts_with("TOMBOLA_") && name.ends_with(&ending) || long == "version",
                "--{long}: {name}"
            );
        }
    });
}

#[test]
fn every_example_parses() {
    let mut examples = 0;
    each(&command(), &mut |command| {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let leaf = command.get_subcommands().next().is_none();
        assert!(
            !leaf || help.contains("Example:"),
            "{} has no example",
            command.get_name()
        );
        for line in help.lines().filter(|line| line.starts_with("  tombola ")) {
            examples += 1;
            let line = line.split(" > ").next().unwrap_or_default();
            let quotes = line.split('"').enumerate();
            let words = quotes.flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            });
            let parsed = self::command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    });
    assert!(examples > 20, "{examples} examples");
}

#[test]
fn wrong_usage_is_explained_in_one_line() {
    let error = |line: &str| {
        let error = command().try_get_matches_from(line.split_whitespace());
        misuse(&error.unwrap_err()).to_json()
    };
    let many = error("tombola draw spring-wheel user-1 --count 101");
    assert_eq!(
        many["message"],
        "invalid value '101' for '--count <N>': write a whole number from 1 to 100, digits only"
    );
    assert_eq!(
        (&many["reason"], &many["executed"]),
        (&"USAGE".into(), &"no".into())
    );
    let typo = error("tombola draw spring-wheel user-1 --cuont 1");
    let typo = typo["message"].as_str().unwrap();
    assert!(
        typo.contains("--cuont") && typo.contains("'--count'"),
        "{typo}"
    );
    assert!(!typo.contains("Usage"), "{typo}");
    assert_eq!(error("tombola")["message"], "no command is named");
}

#[test]
fn a_file_is_named_with_or_without_its_option() {
    let apply = |line: &str| {
        let matches = command()
            .try_get_matches_from(line.split_whitespace())
            .unwrap();
        match Cli::from_arg_matches(&matches).unwrap().command {
            Command::Apply(args) => args.file.path().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    for line in [
        "tombola apply a.yaml",
        "tombola apply -f a.yaml",
        "tombola apply --file a.yaml",
    ] {
        assert_eq!(apply(line).to_str(), Some("a.yaml"), "{line}");
    }
    assert!(
        command()
            .try_get_matches_from(["tombola", "apply"])
            .is_err()
    );
}

#[test]
fn wrong_usage_is_found_before_anything_is_sent() {
    for line in [
        "tombola draw spring-wheel",
        "tombola draw a{b} user",
        "tombola draw spring-wheel user-1 --count 101",
        "tombola grant spring-wheel --draws 1",
        "tombola grant spring-wheel --draws 0 user-1",
        "tombola schedule spring-wheel --from tomorrow",
        "tombola fly",
        "tombola draw spring-wheel user-1 --count 1e1",
    ] {
        let parsed = command().try_get_matches_from(line.split_whitespace());
        assert!(parsed.is_err(), "{line}");
    }
}
