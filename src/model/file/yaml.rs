//! Text to documents: YAML (JSON is a part of it) with bounded work, and errors that name their
//! line.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, budget, options};

use crate::model::problem::Problems;

/// The most that a campaign file may have.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;

/// Every document of a text that is not empty.
pub(super) fn documents(text: &str) -> Result<Vec<Value>, Problems> {
    if text.len() > FILE_BYTES_MAX {
        let tenths = (text.len() * 10).div_ceil(1 << 20);
        return Err(one_problem(
            "file",
            format!(
                "the file has {}.{} MiB; a campaign file has at most 1 MiB",
                tenths / 10,
                tenths % 10
            ),
        ));
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, limits())
        .map_err(|error| syntax_problem(text, error.without_snippet()))?;
    if documents.is_empty() {
        return Err(one_problem(
            "file",
            "is empty: nothing but comments or blank lines",
        ));
    }
    Ok(documents)
}

pub(super) fn one_problem(path: &str, message: impl Into<String>) -> Problems {
    let mut problems = Problems::default();
    problems.add(path, message);
    problems
}

/// What a document may cost. A file of a few hundred bytes can otherwise unfold into gigabytes.
fn limits() -> Options {
    options! {
        budget: budget! {
            max_depth: 32,
            flow_nesting_limit: 32,
            max_documents: 1000,
            max_aliases: 1000,
            max_anchors: 1000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The line and column where a reader should look, and what to do there.
fn syntax_problem(text: &str, error: &Error) -> Problems {
    let Some(at) = error.location() else {
        let (_, message) = innermost(error);
        return one_problem("file", format!("is not YAML: {}", plain(&message)));
    };
    let position = format!("line {}, column {}", at.line(), at.column());
    let (innermost, message) = innermost(error);
    let message = match innermost {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key `{key}` is given twice: keep one of them")
        }
        Error::DuplicateMappingKey { key: None, .. } => "a key is given twice: keep one".into(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => {
            "unfolds into more than a campaign can be: use fewer levels, anchors (&) and aliases \
             (*)"
            .into()
        }
        _ => match tab_line(text, at.line()) {
            Some(line) if message.contains(" tab") || message.starts_with("tab") => {
                let advice = "is indented with a tab: YAML is indented with spaces";
                return one_problem(&format!("line {line}"), advice);
            }
            _ => format!("is not YAML: {}", plain(&message)),
        },
    };
    one_problem(&position, message)
}

/// What a reader does about a message of the parser, by a part of it; the first that fits counts.
const ADVICE: [(&str, &str); 32] = [
    (
        "finite",
        "a number is infinite, or none at all: write its digits",
    ),
    (
        "expected ':'",
        "`:` is missing after a key: write `key: value`",
    ),
    (
        "simple key",
        "a key goes over several lines, or `:` is missing after it: write `key: value`",
    ),
    (
        "multiline quoted scalar",
        "a quotation mark before this line is not closed",
    ),
    ("unclosed quote", "a quotation mark is not closed"),
    ("bracket '['", "`[` is not closed: add `]`"),
    ("bracket '{'", "`{` is not closed: add `}`"),
    (
        "mismatched bracket",
        "a bracket is closed by one of the other kind: `[` belongs to `]`, `{` to `}`",
    ),
    ("misplaced bracket", "a bracket closes nothing: remove it"),
    (
        "unknown anchor",
        "`*` refers to a name that nothing before has; put text that begins with `*` in quotes",
    ),
    (
        "anchor or alias",
        "`&` or `*` begins a name here, and the name is missing: put the text in quotes",
    ),
    (
        "mapping values are not allowed",
        "there is one `: ` too many, or the line is indented too far: put text that contains `: ` \
         in quotes, and indent the keys of a map alike",
    ),
    (
        "keys are not allowed",
        "`?` begins a key here: put the text in quotes",
    ),
    (
        "sequence entries are not allowed",
        "`- ` may not begin a list here: begin the list on the line below its key",
    ),
    (
        "expected '-' indicator",
        "an entry of a list begins with `- `: indent the entries alike",
    ),
    (
        "did not find expected key",
        "it is indented otherwise than the keys before: indent the keys of a map alike",
    ),
    (
        "comment or line break",
        "text stands behind `|` or `>`: begin it on the next line",
    ),
    (
        "flow mapping",
        "there is a comma too many, or a value is missing",
    ),
    (
        "flow sequence",
        "a comma or `]` is missing, or there is a comma too many",
    ),
    (
        "trailing content after",
        "text stands behind a closing quotation mark: add a comma before it, or one pair of quotes \
         around all of it",
    ),
    (
        "quoted scalar",
        "`\\` begins no escape here: write `\\\\`, or use single quotes",
    ),
    (
        "recursion limit",
        "there are brackets in brackets, deeper than a campaign goes",
    ),
    (
        "merge value",
        "`<<` has nothing to merge: remove it, or put the key in quotes",
    ),
    (
        "omment",
        "`#` begins a comment: put a blank before it, or the text in quotes",
    ),
    (
        "YAML major version",
        "`%YAML` names a version that is not known: remove the line",
    ),
    (
        "irective",
        "`%` may not begin a line: remove it, or put the text in quotes",
    ),
    (
        "document",
        "`---` and `...` separate documents: put nothing behind them, or the text in quotes",
    ),
    (
        "tag",
        "`!` begins a tag, and campaigns have none: put the text in quotes",
    ),
    (
        "base64",
        "`!` begins a tag, and campaigns have none: put the text in quotes",
    ),
    (
        "indent",
        "it is indented otherwise than what it belongs to: indent the keys of a map alike",
    ),
    (
        "hitespace",
        "`-` and `:` need a blank behind them: add it, or put the text in quotes",
    ),
    (
        "end of",
        "something ends too early: look for a quotation mark, a bracket or a value that is missing",
    ),
];

/// A message of the parser in plain words; where it is not known, the usual mistakes.
fn plain(message: &str) -> String {
    let character = message.strip_prefix("unexpected character: `");
    match character.and_then(|rest| rest.strip_suffix('\'')) {
        Some(character) if character.starts_with("\\u{") => {
            return format!(
                "it has the control character {character}: save the file as UTF-8 text"
            );
        }
        Some(character) => {
            return format!("a value may not begin with `{character}`: put it in quotes");
        }
        None => {}
    }
    let advice = ADVICE.iter().find(|(part, _)| message.contains(part));
    let (_, advice) = advice.unwrap_or(&(
        "",
        "look for quotation marks, brackets, commas and `: ` that are missing or too many, here \
         and on the line before",
    ));
    (*advice).to_owned()
}

/// The error itself, out of what merely says that an alias led to it, and its message without the
/// position.
fn innermost(error: &Error) -> (&Error, String) {
    if let Error::AliasError { error, .. } | Error::WithSnippet { error, .. } = error {
        return innermost(error);
    }
    let message = error.to_string();
    let position = error
        .location()
        .map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let bare = position.and_then(|position| message.strip_suffix(&position).map(str::to_owned));
    (error, bare.unwrap_or(message))
}

/// The first line from `from` on that is indented with a tab: the parser names the line before,
/// where the value began.
fn tab_line(text: &str, from: u64) -> Option<u64> {
    let lines = (1..).zip(text.lines()).filter(|(line, _)| *line >= from);
    let mut tabbed = lines.filter(|(_, line)| {
        let content = line.trim_start_matches([' ', '\t']);
        line[..line.len() - content.len()].contains('\t')
    });
    tabbed.next().map(|(line, _)| line)
}
