//! Follows the master that a majority of all known sentinels names.
//!
//! Each sentinel is asked each second, and its channel `+switch-master` announces a switch. The
//! announcement comes before a majority can know of the switch; from then on the old master is not
//! used.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use redis::{FromRedisValue as _, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_stream::StreamExt as _;

use super::{
    council::{Council, Replica, Word},
    fault::Fault,
    lease::Lease,
    masters::Directory,
    panel::{Panel, Question, Report},
    pool::Peer,
    url::Address,
};

/// How often the master's replicas are counted.
const CENSUS_INTERVAL: Duration = Duration::from_millis(500);
/// How long there may be no majority for the master in use before that is logged.
const UNSURE_MAX: Duration = Duration::from_secs(5);
/// How soon a broken channel of a sentinel is opened again.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// The question to each sentinel.
#[derive(Clone)]
struct AskSentinel {
    master: String,
}

impl Question for AskSentinel {
    type Answer = Word;

    async fn ask(
        &self,
        _: &Address,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Self::Answer> {
        let sentinel = |verb: &str| {
            let mut cmd = redis::cmd("SENTINEL");
            cmd.arg(verb);
            cmd
        };
        let mut named = sentinel("get-master-addr-by-name");
        let id = sentinel("myid").query_async(connection).await?;
        let master: Option<(String, u16)> = named.arg(&self.master).query_async(connection).await?;
        let Some((host, port)) = master else {
            return Ok(Word {
                id,
                master: None,
                replicas: Vec::new(),
                others: Vec::new(),
            });
        };
        let replicas = sentinel("replicas").arg(&self.master).to_owned();
        let others = sentinel("sentinels").arg(&self.master).to_owned();
        Ok(Word {
            id,
            master: Some(Address { host, port }),
            replicas: listed(replicas.query_async(connection).await?, read_replica)?,
            others: listed(others.query_async(connection).await?, |fields| {
                (value_of(fields, "runid"), read_address(fields))
            })?,
        })
    }
}

type Fields = HashMap<String, String>;

/// The entries of a list of `SENTINEL`.
fn listed<T>(list: Vec<Value>, read: impl Fn(&Fields) -> T) -> RedisResult<Vec<T>> {
    list.into_iter()
        .map(|entry| Ok(read(&Fields::from_redis_value(entry)?)))
        .collect()
}

fn value_of(fields: &Fields, name: &str) -> String {
    fields.get(name).cloned().unwrap_or_default()
}

fn read_address(fields: &Fields) -> Address {
    Address {
        host: value_of(fields, "ip"),
        port: value_of(fields, "port").parse().unwrap_or_default(),
    }
}

fn read_replica(fields: &Fields) -> Replica {
    let flags = value_of(fields, "flags");
    let is_up = !flags
        .split(',')
        .any(|flag| flag == "s_down" || flag == "o_down");
    Replica {
        address: read_address(fields),
        is_up,
        is_linked: is_up && value_of(fields, "master-link-status") == "ok",
    }
}

/// Follows the master until it is aborted.
pub(crate) async fn follow(directory: Arc<Directory>, sentinels: Vec<Address>, master: String) {
    let question = AskSentinel {
        master: master.clone(),
    };
    let (panel, mut reports) = Panel::new(question, Peer::Sentinel, Arc::clone(&directory));
    let (switches, mut switched) = mpsc::channel(16);
    let census = tokio::spawn(count_online(Arc::downgrade(&directory)));
    let mut follower = Follower {
        directory,
        panel,
        channels: HashMap::new(),
        switches,
        master,
        council: Council::new(sentinels.len()),
        reported: HashSet::new(),
        doubt: Doubt::default(),
        census: census.abort_handle(),
    };
    sentinels.iter().for_each(|address| follower.meet(address));
    loop {
        tokio::select! {
            Some(report) = reports.recv() => follower.hear(report),
            Some(switch) = switched.recv() => follower.switch(switch),
            else => return,
        }
    }
}

/// A sentinel's announcement that the master changed.
struct Switch {
    from: Address,
    to: Address,
}

struct Follower {
    directory: Arc<Directory>,
    panel: Panel<AskSentinel>,
    channels: HashMap<Address, AbortHandle>,
    switches: mpsc::Sender<Switch>,
    master: String,
    council: Council,
    /// Sentinels that have answered, or failed to, in this round of all sentinels.
    reported: HashSet<Address>,
    doubt: Doubt,
    census: AbortHandle,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.census.abort();
        self.channels.values().for_each(AbortHandle::abort);
    }
}

impl Follower {
    /// Asks one more sentinel, and listens to it.
    fn meet(&mut self, sentinel: &Address) {
        self.panel.add(sentinel);
        if !self.channels.contains_key(sentinel) {
            let listening = listen(
                Arc::clone(&self.directory),
                sentinel.clone(),
                self.master.clone(),
                self.switches.clone(),
            );
            let task = tokio::spawn(listening).abort_handle();
            self.channels.insert(sentinel.clone(), task);
        }
    }

    fn hear(&mut self, report: Report<Word>) {
        self.reported.insert(report.server.clone());
        let trouble = match report.answer {
            Ok(word) => {
                self.council.note(report.server, word);
                None
            }
            Err(fault) => {
                self.council.forget(&report.server);
                Some(fault)
            }
        };
        for address in self.council.strangers() {
            self.meet(&address);
        }
        let verdict = self.council.verdict(Instant::now());
        let is_named = verdict.is_some();
        if let Some(found) = verdict {
            self.directory.learn(&[found], Vec::new());
        }
        match self.doubt.note(is_named, Instant::now()) {
            Some(true) => tracing::warn!(
                "{}; the service goes on with the master that they named last: if it was cut off \
                 together with that master, another one may be promoted meanwhile",
                self.no_majority()
            ),
            Some(false) => tracing::info!("a majority of the sentinels names the master again"),
            None => {}
        }
        if self
            .panel
            .members()
            .all(|server| self.reported.contains(server))
        {
            self.reported.clear();
            let trouble = match self.council.disowned() {
                Some(_) => None,
                None => Some(trouble.unwrap_or_else(|| self.no_majority())),
            };
            self.directory.asked_all(trouble);
        }
    }

    fn no_majority(&self) -> Fault {
        let (known, master) = (self.council.known(), &self.master);
        let (named, best) = self.council.votes();
        let said = if named == 0 {
            format!("none of {known} sentinels knows a master `{master}`")
        } else {
            format!(
                "{best} of {known} sentinels agree on the master `{master}`, a majority is needed"
            )
        };
        Fault::no_master(&said, self.directory.dialer.url())
    }

    fn switch(&mut self, switch: Switch) {
        let Switch { from, to } = switch;
        if self.council.is_in_use(&from) {
            tracing::warn!(%from, %to, "Sentinel switches the master from {from} to {to}");
            self.council.disown(from);
            self.directory.disown();
        }
        self.directory.ask_again();
    }
}

/// Whether a majority has named the master lately.
#[derive(Default)]
struct Doubt {
    since: Option<Instant>,
    is_said: bool,
}

impl Doubt {
    /// Notes whether a majority names a master now. Returns true once when it has not done so for
    /// [`UNSURE_MAX`], and false once when it does again after that.
    fn note(&mut self, is_named: bool, now: Instant) -> Option<bool> {
        if is_named {
            self.since = None;
            return std::mem::take(&mut self.is_said).then_some(false);
        }
        let since = *self.since.get_or_insert(now);
        let is_news = !self.is_said && now.duration_since(since) >= UNSURE_MAX;
        self.is_said |= is_news;
        is_news.then_some(true)
    }
}

/// Counts the replicas that the master itself says are online: sentinels learn of them seconds
/// later.
async fn count_online(directory: Weak<Directory>) {
    let mut cmd = redis::cmd("INFO");
    cmd.arg("replication");
    loop {
        let Some(directory) = directory.upgrade() else {
            return;
        };
        if let Ok(map) = directory.map().await
            && let Some(node) = map.nodes.first()
            && let Ok(mut lease) = Lease::take(&directory, node).await
            && let Ok(info) = lease.call(&cmd).await
            && let Ok(info) = redis::from_redis_value::<String>(info)
        {
            let online = info.matches("state=online").count();
            node.set_online(u32::try_from(online).unwrap_or(u32::MAX), Instant::now());
        }
        drop(directory);
        sleep(CENSUS_INTERVAL).await;
    }
}

/// Passes on what a sentinel says of switches; opens the channel again when it breaks.
async fn listen(
    directory: Arc<Directory>,
    sentinel: Address,
    master: String,
    switches: mpsc::Sender<Switch>,
) {
    loop {
        if let Ok(Ok(mut channel)) =
            timeout(LISTEN_PAUSE * 2, directory.dialer.listen(&sentinel)).await
            && channel.subscribe("+switch-master").await.is_ok()
        {
            // What was said before is learned by asking.
            directory.ask_again();
            let mut messages = channel.on_message();
            while let Some(message) = messages.next().await {
                let text: String = message.get_payload().unwrap_or_default();
                if let Some(switch) = read_switch(&text, &master)
                    && switches.send(switch).await.is_err()
                {
                    return;
                }
            }
        }
        sleep(LISTEN_PAUSE).await;
    }
}

/// `name old-ip old-port new-ip new-port`
fn read_switch(text: &str, master: &str) -> Option<Switch> {
    let mut words = text.split(' ');
    if words.next()? != master {
        return None;
    }
    let mut address = || {
        let host = words.next()?.to_owned();
        let port = words.next()?.parse().ok()?;
        Some(Address { host, port })
    };
    Some(Switch {
        from: address()?,
        to: address()?,
    })
}

/// What is known beside the masters, for checks: hosts of the sentinels and of the nodes.
pub(crate) async fn survey(
    directory: &Directory,
    sentinels: &[Address],
    master: &str,
) -> Option<Survey> {
    for sentinel in sentinels {
        let Ok(mut connection) = directory.dialer.connect(Peer::Sentinel, sentinel).await else {
            continue;
        };
        let question = AskSentinel {
            master: master.to_owned(),
        };
        let asked = timeout(LISTEN_PAUSE, question.ask(sentinel, &mut connection));
        if let Ok(Ok(word)) = asked.await
            && word.master.is_some()
        {
            let others = word.others.into_iter().map(|(_, address)| address.host);
            let named = sentinels.iter().map(|address| address.host.clone());
            return Some(Survey {
                sentinels: others.chain(named).collect(),
                replicas: word.replicas.into_iter().map(|r| r.address).collect(),
            });
        }
    }
    None
}

/// Hosts of the sentinels, and the replicas.
pub(crate) struct Survey {
    pub(crate) sentinels: HashSet<String>,
    pub(crate) replicas: Vec<Address>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_is_said_once_and_its_end_too() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut doubt = Doubt::default();
        assert_eq!(doubt.note(true, at(0)), None);
        assert_eq!(doubt.note(false, at(1)), None);
        assert_eq!(doubt.note(true, at(5)), None, "it was short");
        assert_eq!(doubt.note(false, at(6)), None);
        assert_eq!(doubt.note(false, at(10)), None);
        assert_eq!(doubt.note(false, at(11)), Some(true));
        assert_eq!(doubt.note(false, at(20)), None, "it was said");
        assert_eq!(doubt.note(true, at(21)), Some(false));
        assert_eq!(doubt.note(true, at(22)), None);
    }

    #[test]
    fn a_switch_is_read() {
        let switch = read_switch("main 10.0.0.1 6379 10.0.0.2 6380", "main").unwrap();
        assert_eq!(switch.from.to_string(), "10.0.0.1:6379");
        assert_eq!(switch.to.to_string(), "10.0.0.2:6380");
        assert!(read_switch("other 10.0.0.1 6379 10.0.0.2 6380", "main").is_none());
    }
}
