//! Problems of what somebody wrote, as lists: each names its place.

use maud::{Markup, html};
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::{
    console::{i18n::Language, ui, visit::Visit},
    model::Problems,
};

/// All problems that were found here.
pub(super) fn list(lang: Language, problems: &Problems) -> Markup {
    let problems = problems.0.iter();
    let lines: Vec<_> = problems
        .map(|problem| (problem.path.as_str(), problem.message.as_str()))
        .collect();
    listed(lang, &lines)
}

/// Why a service refuses something, with every problem that it names.
pub(super) fn of_status(visit: &Visit, status: &Status) -> Markup {
    let details = status.get_details_bad_request();
    let violations = details.map(|details| details.field_violations);
    let violations = violations.unwrap_or_default();
    if violations.is_empty() {
        return visit.trouble(status);
    }
    let lines: Vec<_> = violations
        .iter()
        .map(|violation| (violation.field.as_str(), violation.description.as_str()))
        .collect();
    listed(visit.language, &lines)
}

fn listed(lang: Language, lines: &[(&str, &str)]) -> Markup {
    let text = html! {
        strong { (lang.with("problems.count", &lines.len().to_string())) }
        ul lang="en" { @for (path, message) in lines { li { code { (path) } " " (message) } } }
    };
    ui::notice("bad", &text)
}
