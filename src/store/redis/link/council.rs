//! Decides from the answers of the sentinels which server is the master: a majority of all known
//! sentinels must name it.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use super::{masters::Found, url::Address};

/// After one sentinel has given up a master, others that still name it are believed only after this
/// long. They learn of the switch from each other within two seconds.
const GRACE: Duration = Duration::from_secs(4);

/// The answer of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) id: String,
    /// None if it does not know the master's name.
    pub(super) master: Option<Address>,
    /// Replicas of the master, dead ones too.
    pub(super) replicas: Vec<Replica>,
    /// The other sentinels.
    pub(super) others: Vec<(String, Address)>,
}

/// A replica as a sentinel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) address: Address,
    pub(super) is_up: bool,
    pub(super) is_linked: bool,
}

/// The answers of all sentinels, and the master that follows from them.
pub(super) struct Council {
    /// Sentinels in the URL.
    named: usize,
    /// The last answer of each sentinel that answers.
    words: HashMap<Address, Word>,
    chosen: Option<Address>,
    /// A master that a sentinel gave up, and when.
    disowned: Option<(Address, Instant)>,
}

impl Council {
    /// A council without answers yet; the URL names `named` sentinels.
    pub(super) fn new(named: usize) -> Self {
        Self {
            named,
            words: HashMap::new(),
            chosen: None,
            disowned: None,
        }
    }

    /// Sets a sentinel's last answer.
    pub(super) fn note(&mut self, server: Address, word: Word) {
        self.words.insert(server, word);
    }

    /// Drops the last answer of a sentinel that no longer answers.
    pub(super) fn forget(&mut self, server: &Address) {
        self.words.remove(server);
    }

    /// A sentinel has given this master up: it is not chosen any more, and sentinels that still
    /// name it are not believed for some seconds.
    pub(super) fn disown(&mut self, master: Address) {
        self.disowned = Some((master, Instant::now()));
        self.chosen = None;
    }

    /// The master that a sentinel gave up, if the council waits because of it.
    pub(super) fn disowned(&self) -> Option<&Address> {
        self.disowned.as_ref().map(|(master, _)| master)
    }

    /// Whether the majority has named this master.
    pub(super) fn is_in_use(&self, master: &Address) -> bool {
        self.chosen.as_ref() == Some(master)
    }

    /// Sentinels that others name and that are not asked yet.
    pub(super) fn strangers(&self) -> Vec<Address> {
        let asked: HashSet<&str> = self.words.values().map(|word| word.id.as_str()).collect();
        let others = self.words.values().flat_map(|word| &word.others);
        let mut strangers: Vec<_> = others
            .filter(|(id, address)| {
                !asked.contains(id.as_str()) && !self.words.contains_key(address)
            })
            .map(|(_, address)| address.clone())
            .collect();
        strangers.sort_unstable();
        strangers.dedup();
        strangers
    }

    /// How many sentinels there are, dead ones too. One may be known by several names, but has one
    /// run id.
    pub(super) fn known(&self) -> usize {
        let words = self.words.values();
        let ids: HashSet<&str> = words
            .flat_map(|word| word.others.iter().map(|(id, _)| id).chain([&word.id]))
            .map(String::as_str)
            .collect();
        ids.len().max(self.named)
    }

    /// How many masters are named, and how many sentinels agree on one.
    pub(super) fn votes(&self) -> (usize, usize) {
        let votes = self.ballot();
        let best = votes.values().map(HashSet::len).max();
        (votes.len(), best.unwrap_or_default())
    }

    fn ballot(&self) -> HashMap<&Address, HashSet<&str>> {
        let mut votes: HashMap<&Address, HashSet<&str>> = HashMap::new();
        for word in self.words.values() {
            if let Some(master) = &word.master {
                votes.entry(master).or_default().insert(&word.id);
            }
        }
        votes
    }

    /// The master that a majority names.
    pub(super) fn verdict(&mut self, now: Instant) -> Option<Found> {
        let known = self.known();
        let (master, _) = self
            .ballot()
            .into_iter()
            .find(|(_, votes)| votes.len() * 2 > known)?;
        if let Some((disowned, since)) = &self.disowned
            && disowned == master
            && now.duration_since(*since) < GRACE
        {
            return None;
        }
        let master = master.clone();
        // The highest count of the sentinels: it is safer to wait for too many replicas than for
        // too few.
        let most = |counts: fn(&Replica) -> bool| {
            let words = self.words.values();
            let agreeing = words.filter(|word| word.master.as_ref() == Some(&master));
            let counts = agreeing.map(|word| word.replicas.iter().filter(|r| counts(r)).count());
            u32::try_from(counts.max().unwrap_or_default()).unwrap_or(u32::MAX)
        };
        let (replicas, up) = (most(|_| true), most(|replica| replica.is_up));
        let linked = most(|replica| replica.is_linked);
        self.disowned = None;
        self.chosen = Some(master.clone());
        Some(Found {
            address: master,
            replicas,
            up,
            linked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address {
            host: "h".into(),
            port,
        }
    }

    /// The word of sentinel `id` of three, which names a master.
    fn word(id: &str, master: u16) -> Word {
        let all = [("a", 1), ("b", 2), ("c", 3)];
        let others = all.into_iter().filter(|(other, _)| *other != id);
        Word {
            id: id.to_owned(),
            master: Some(address(master)),
            replicas: [(8, true), (9, false)]
                .map(|(port, is_up)| Replica {
                    address: address(port),
                    is_up,
                    is_linked: is_up,
                })
                .to_vec(),
            others: others
                .map(|(id, port)| (id.to_owned(), address(port)))
                .collect(),
        }
    }

    #[test]
    fn only_a_majority_of_all_known_sentinels_names_the_master() {
        let now = Instant::now();
        let mut council = Council::new(1);
        council.note(address(1), word("a", 7));
        assert_eq!(council.known(), 3);
        assert_eq!(council.verdict(now), None, "one of three");
        assert_eq!(council.strangers(), [address(2), address(3)]);
        council.note(address(2), word("b", 8));
        assert_eq!(council.verdict(now), None, "they disagree");
        council.note(address(3), word("c", 7));
        let found = council.verdict(now).unwrap();
        assert_eq!((found.address, found.replicas), (address(7), 2));
        assert_eq!((found.up, found.linked), (1, 1), "one is down");
        assert!(council.is_in_use(&address(7)));
    }

    #[test]
    fn a_sentinel_under_two_names_has_one_vote() {
        let mut council = Council::new(1);
        council.note(address(1), word("a", 7));
        let alias = Address {
            host: "alias".into(),
            port: 1,
        };
        council.note(alias, word("a", 7));
        assert_eq!(council.known(), 3);
        assert_eq!(council.verdict(Instant::now()), None);
    }

    #[test]
    fn a_master_that_was_given_up_is_not_taken_from_those_who_have_not_heard() {
        let now = Instant::now();
        let mut council = Council::new(3);
        for (port, id) in [(1, "a"), (2, "b"), (3, "c")] {
            council.note(address(port), word(id, 7));
        }
        council.disowned = Some((address(7), now));
        assert_eq!(council.verdict(now), None);
        assert!(
            council.verdict(now + GRACE).is_some(),
            "it was a false alarm"
        );
        council.disowned = Some((address(7), now));
        council.note(address(1), word("a", 8));
        council.note(address(2), word("b", 8));
        assert_eq!(council.verdict(now).unwrap().address, address(8));
        assert_eq!(council.disowned, None);
    }
}
