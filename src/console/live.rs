//! Live pages: server-sent events with the part of a page that changes. Viewers of the same page
//! with the same credential share one feed, which is made once a second for all of them and ends
//! with the last one. Feeds of several credentials share their reads of the store, behind the gates
//! of the services.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Path, Query, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_stream::{Stream, StreamExt as _, wrappers::WatchStream};
use tonic::{Code, Status};

use super::{
    Shared,
    i18n::Language,
    pages::{campaign, overview},
    session::{self, Session, Visitor},
    visit::{Contents, Visit},
};
use crate::{
    grpc::{access::TokenHash, local::LIVE_AGE_MAX},
    model::Moment,
};

/// How often a feed reads.
const PERIOD: Duration = Duration::from_secs(1);
/// How often a stream without news says that it lives.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The most feeds at once; one more is refused, and the page stays as it is.
const FEEDS_MAX: usize = 1_000;
/// The most feeds of one credential.
const FEEDS_OF_CREDENTIAL_MAX: usize = 100;

/// What viewers of a feed have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The credential; none at a server that knows no identities.
    credential: Option<TokenHash>,
    language: Language,
    address: String,
}

/// What a feed has read last.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    /// Nothing, or it could not be read just now.
    None,
    /// The part of the page, when reading it began, and for whom it is.
    Part {
        begun: Instant,
        part: Arc<str>,
        /// Sessions that began before are over.
        sessions_from: Option<Moment>,
    },
    /// The session has ended, or what is shown is gone: the page is to be loaded again.
    Over,
}

/// All feeds.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    known: Mutex<HashMap<Key, watch::Sender<News>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// The contents of a part, read again and again.
type Reading = Pin<Box<dyn Future<Output = Contents> + Send>>;

/// Whether a path is that of a stream.
pub(super) fn is_stream(path: &str) -> bool {
    path.starts_with("/live/")
}

/// A stream for a page whose session has ended. The page is to be loaded again, which leads to the
/// form to sign in. That form in place of a stream would look like a server that is away.
pub(super) fn ended() -> Response {
    Sse::new(tokio_stream::once(Ok::<_, Infallible>(over()))).into_response()
}

/// Browsers drop events without data.
fn over() -> Event {
    Event::default().event("over").data("over")
}

/// The list of campaigns.
pub(super) async fn overview(
    State(console): State<Shared>,
    visit: Visit,
    Query(asked): Query<overview::Asked>,
) -> Response {
    let read = move |visit: Visit| -> Reading {
        let asked = asked.clone();
        Box::pin(async move { overview::list(&visit, &asked).await })
    };
    stream(&console, visit, read)
}

/// The numbers of a campaign.
pub(super) async fn campaign(
    State(console): State<Shared>,
    visit: Visit,
    Path(id): Path<String>,
) -> Response {
    let read = move |visit: Visit| -> Reading {
        let id = id.clone();
        Box::pin(async move { campaign::numbers(&visit, &id).await })
    };
    stream(&console, visit, read)
}

fn stream(
    console: &Shared,
    visit: Visit,
    read: impl Fn(Visit) -> Reading + Send + 'static,
) -> Response {
    let session = visit.session.clone();
    let Some(news) = subscribe(console, visit, read) else {
        return axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let keep_alive = KeepAlive::new().interval(KEEPALIVE);
    Sse::new(events(news, session))
        .keep_alive(keep_alive)
        .into_response()
}

/// Events until the session ends: what is read from now on, if it differs from what was sent last.
/// What was read before may be older than the page, and would take back what its visitor has just
/// done. So may be what is made now of reads that are shared.
fn events(
    news: watch::Receiver<News>,
    session: Session,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let left = session::remaining(session.until);
    let since = Instant::now() + LIVE_AGE_MAX;
    let mut last: Option<Arc<str>> = None;
    let news = WatchStream::from_changes(news).filter_map(move |news| match news {
        News::None => None,
        News::Part { sessions_from, .. } if !session.has_begun_since(sessions_from) => Some(over()),
        News::Part { begun, part, .. } if begun < since || last.as_ref() == Some(&part) => None,
        News::Part { part, .. } => {
            let event = Event::default().event("part").data(&*part);
            last = Some(part);
            Some(event)
        }
        News::Over => Some(over()),
    });
    let ended = tokio_stream::once(()).then(move |()| async move {
        sleep(left).await;
        over()
    });
    news.merge(ended).map(Ok)
}

/// Joins the feed, or begins it.
fn subscribe(
    console: &Shared,
    visit: Visit,
    read: impl Fn(Visit) -> Reading + Send + 'static,
) -> Option<watch::Receiver<News>> {
    let key = Key {
        credential: match &visit.session.visitor {
            Visitor::Bearer(token) => Some(TokenHash::of(token.expose())),
            Visitor::Named(_) => None,
        },
        language: visit.language,
        address: visit.address.clone(),
    };
    let mut feeds = console.feeds.lock();
    if let Some(feed) = feeds.get(&key) {
        return Some(feed.subscribe());
    }
    let own = feeds
        .keys()
        .filter(|known| known.credential == key.credential);
    let has_too_many = key.credential.is_some() && own.count() >= FEEDS_OF_CREDENTIAL_MAX;
    if feeds.len() >= FEEDS_MAX || has_too_many {
        return None;
    }
    let (sender, receiver) = watch::channel(News::None);
    feeds.insert(key.clone(), sender.clone());
    let feed = feed(Arc::clone(console), key, sender, visit, read);
    console.feeds.begin(feed);
    Some(receiver)
}

/// Reads for all viewers until there are none.
async fn feed(
    console: Shared,
    key: Key,
    sender: watch::Sender<News>,
    visit: Visit,
    read: impl Fn(Visit) -> Reading,
) {
    let visit = visit.live();
    loop {
        let begun = Instant::now();
        let news = match sessions_from(&console, &visit).await {
            Ok(from) => read(visit.clone()).await.map(|part| (from, part)),
            Err(status) => Err(status),
        };
        let news = match news {
            Ok((sessions_from, part)) => News::Part {
                begun,
                part: part.into_string().into(),
                sessions_from,
            },
            Err(status) if ends(&status) => News::Over,
            Err(_) => News::None,
        };
        let is_over = news == News::Over;
        sender.send_replace(news);
        if is_over || timeout(PERIOD, sender.closed()).await.is_ok() {
            let mut feeds = console.feeds.lock();
            // Somebody may have joined meanwhile.
            if is_over || sender.receiver_count() == 0 {
                feeds.remove(&key);
                return;
            }
        }
    }
}

/// Since when sessions of the credential are valid, if it is still one.
async fn sessions_from(console: &Shared, visit: &Visit) -> Result<Option<Moment>, Status> {
    let Visitor::Bearer(token) = &visit.session.visitor else {
        return Ok(None);
    };
    let identity = console.local.identity(token).await?;
    Ok(identity.and_then(|identity| identity.sessions_from))
}

/// Whether an error ends what is shown, so that the page is to be loaded again. With any other
/// error the page may be just as it is now: it would be loaded again and again.
fn ends(status: &Status) -> bool {
    let code = status.code();
    matches!(
        code,
        Code::Unauthenticated | Code::PermissionDenied | Code::NotFound
    )
}

impl Feeds {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, watch::Sender<News>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, feed: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(feed);
    }

    /// Ends all feeds, which keep the services.
    pub(super) fn end(&self) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.abort_all();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::grpc::access::Secret;

    /// A session that began then and has another minute.
    fn session(begun_s: i64) -> Session {
        Session {
            visitor: Visitor::Bearer(Secret::new("token")),
            begun: Moment::from_micros(begun_s * 1_000_000),
            until: session::now() + Duration::from_secs(60),
        }
    }

    fn part(text: &str, sessions_from: Option<Moment>) -> News {
        News::Part {
            begun: Instant::now(),
            part: text.into(),
            sessions_from,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_viewers_of_one_feed_those_leave_whose_session_is_over() {
        let (sender, receiver) = watch::channel(News::None);
        let mut older = std::pin::pin!(events(receiver.clone(), session(9)));
        let mut newer = std::pin::pin!(events(receiver, session(10)));
        advance(LIVE_AGE_MAX).await;
        sender.send_replace(part("news", Some(Moment::from_micros(10_000_000))));
        let sent = |event: Option<Result<Event, _>>| format!("{:?}", event.unwrap().unwrap());
        assert!(sent(older.next().await).contains("over"));
        assert!(sent(newer.next().await).contains("news"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_before_a_page_was_loaded_is_not_sent_to_it() {
        let (sender, receiver) = watch::channel(News::None);
        let mut events = std::pin::pin!(events(receiver, session(9)));
        let part = |text: &str| part(text, None);
        // Shared reads are as old as a second.
        sender.send_replace(part("old"));
        assert!(timeout(PERIOD / 2, events.next()).await.is_err());
        sender.send_replace(part("old"));
        assert!(timeout(PERIOD, events.next()).await.is_err());
        sender.send_replace(part("new"));
        assert!(events.next().await.is_some());
        // The same once more is no news.
        sender.send_replace(part("new"));
        advance(PERIOD).await;
        assert!(timeout(PERIOD, events.next()).await.is_err());
        sender.send_replace(News::Over);
        assert!(events.next().await.is_some());
    }
}
