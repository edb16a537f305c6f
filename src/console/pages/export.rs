//! Lists as files for spreadsheets: sent page by page while they are read, and bounded.

use std::{marker::PhantomData, sync::Arc};

use axum::{
    body::Body,
    extract::{Path, Query as Asking},
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use jiff::tz::TimeZone;
use tokio::sync::Mutex;
use tokio_stream::StreamExt as _;
use tonic::Status;

use super::{
    definition,
    lists::{Asked, Events, List, Query},
    status,
};
use crate::{
    console::{layout::Place, ui::number, visit::Visit},
    model::convert::{sheets::csv, times::shown},
};

/// Elements that are read at once.
const PAGE_SIZE: u32 = 1_000;
/// The most pages of a file.
const PAGES_MAX: usize = 100;

/// The list as CSV, with the filters of its page. What is left out is said in the last row.
pub(in crate::console) async fn file<L: List>(
    visit: Visit,
    Path(id): Path<String>,
    Asking(asked): Asking<Asked>,
) -> Response {
    let begun = match status(&visit, &id).await {
        Ok(status) => begin::<L>(&visit, id, asked, definition(&status).1).await,
        Err(status) => Err(status),
    };
    answer(&visit, Place::Campaigns, begun)
}

/// What happened to envelopes, as CSV in UTC.
pub(in crate::console) async fn envelopes(visit: Visit, Asking(asked): Asking<Asked>) -> Response {
    let begun = begin::<Events>(&visit, String::new(), asked, TimeZone::UTC).await;
    answer(&visit, Place::Envelopes, begun)
}

/// The file, or a page that says why there is none.
fn answer(visit: &Visit, place: Place, begun: Result<(String, Body), Status>) -> Response {
    match begun {
        Ok((name, body)) => {
            let name = format!("attachment; filename=\"{name}\"");
            let kind = "text/csv; charset=utf-8";
            ([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, &name)], body).into_response()
        }
        Err(status) => visit.page(place, visit.language.t("error.title"), Err(status)),
    }
}

/// The name of the file, and its contents; or why there are none.
async fn begin<L: List>(
    visit: &Visit,
    id: String,
    asked: Asked,
    zone: TimeZone,
) -> Result<(String, Body), Status> {
    let name = match id.as_str() {
        "" => format!("{}.csv", L::PATH),
        id => format!("{}-{}.csv", id.replace([':', '@'], "-"), L::PATH),
    };
    let mut file = File::<L> {
        visit: visit.clone(),
        id,
        asked,
        zone,
        pages: 0,
        next: Next::First,
        complete_until: None,
        list: PhantomData,
    };
    // An error of the first page is a page of the console; one later breaks the file off.
    let first = file.part().await?;
    let file = Arc::new(Mutex::new(file));
    let rest = tokio_stream::iter(0..=PAGES_MAX).then(move |_| {
        let file = Arc::clone(&file);
        async move { file.lock().await.part().await }
    });
    let rest = rest.take_while(|part| !matches!(part, Ok(None)));
    let parts = tokio_stream::once(Ok(first)).chain(rest);
    let parts = parts.map(|part| part.map(Option::unwrap_or_default));
    Ok((name, Body::from_stream(parts)))
}

/// Where a file goes on.
enum Next {
    First,
    Page(String),
    Over,
}

struct File<L> {
    visit: Visit,
    id: String,
    asked: Asked,
    zone: TimeZone,
    pages: usize,
    next: Next,
    /// How far the list goes if settling is behind.
    complete_until: Option<prost_types::Timestamp>,
    list: PhantomData<fn() -> L>,
}

impl<L: List> File<L> {
    /// The next lines; none at the end.
    async fn part(&mut self) -> Result<Option<String>, Status> {
        let (mut lines, token) = match std::mem::replace(&mut self.next, Next::Over) {
            // Spreadsheets take a file for UTF-8 if it begins with this mark.
            Next::First => (
                format!("\u{feff}{}", csv::line(L::columns())),
                String::new(),
            ),
            Next::Page(token) => (String::new(), token),
            Next::Over => return Ok(None),
        };
        let query = Query {
            campaign: &self.id,
            zone: &self.zone,
            asked: &self.asked,
            size: PAGE_SIZE,
            token,
        };
        let page = L::read(&self.visit, query).await?;
        self.pages += 1;
        for element in &page.elements {
            lines += &csv::line(L::row(element, &self.zone));
        }
        self.complete_until = self.complete_until.or(page.complete_until);
        let lang = self.visit.language;
        if !page.next.is_empty() && self.pages < PAGES_MAX {
            self.next = Next::Page(page.next);
        } else {
            if !page.next.is_empty() {
                let most = number(PAGES_MAX as u64 * u64::from(PAGE_SIZE));
                lines += &csv::line([lang.with("csv.cut", &most)]);
            }
            if self.complete_until.is_some() {
                let until = shown(self.complete_until.as_ref(), &self.zone);
                lines += &csv::line([format!("{} {until}", lang.t("list.behind"))]);
            }
        }
        Ok(Some(lines))
    }
}
