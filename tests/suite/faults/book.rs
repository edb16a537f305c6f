//! What all clients know together, compared with what the server says after its return.

use std::collections::{BTreeMap, HashSet};

use tokio::task::JoinSet;
use tombola::proto::{
    CheckLimitRequest, DrawRequest, DrawResponse, Funding, GetDrawRequest, GetStatsRequest,
    Outcome, lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, transport::Channel};

use super::load::{Attempt, Heard, IDS, heard_from};
use crate::process::Server;

type Lottery = LotteryServiceClient<Channel>;

/// Connections that settle attempts in parallel.
const CONNECTIONS: usize = 16;

/// All draws that were made, over all rounds.
#[derive(Default)]
pub struct Book {
    draws: Vec<(DrawRequest, DrawResponse)>,
    units: HashSet<(String, String)>,
    users: BTreeMap<(String, String), Used>,
}

/// The draws that a user has used.
#[derive(Clone, Copy, Default)]
struct Used {
    free: u64,
    paid: u64,
    wins: u64,
}

impl Book {
    /// Finds the outcome of each attempt of a round, notes it, and compares everything with the
    /// server's own figures.
    pub async fn settle(&mut self, server: &Server, attempts: Vec<Attempt>) {
        for (request, response) in in_parallel(server, attempts, settled).await {
            self.enter(request, response);
        }
        self.compare_stats(server).await;
        self.compare_limits(server).await;
    }

    /// Asks for every draw of all rounds once more.
    pub async fn read_all_again(self, server: &Server) {
        let count = self.draws.len();
        let again = in_parallel(server, self.draws, |mut lottery, draw| async move {
            let (request, answer) = draw;
            let got = find(&mut lottery, &request).await;
            assert_eq!(got, Some(replayed(&answer)), "{request:?}");
            got
        });
        assert_eq!(again.await.len(), count);
    }

    fn enter(&mut self, request: DrawRequest, response: DrawResponse) {
        let (campaign, user) = (request.campaign_id.clone(), request.user_id.clone());
        assert_eq!(response.results.len(), request.count as usize);
        let used = self.users.entry((campaign.clone(), user)).or_default();
        match request.funding() {
            Funding::Paid => used.paid += u64::from(request.count),
            Funding::Free | Funding::Unspecified => used.free += u64::from(request.count),
        }
        for result in &response.results {
            if result.outcome() != Outcome::Won {
                continue;
            }
            used.wins += 1;
            let unit = (campaign.clone(), result.unit_id.clone());
            assert!(self.units.insert(unit), "won twice: {result:?} {request:?}");
            if let Some(release) = &result.release_time {
                let drawn = response.draw_time.as_ref().unwrap();
                let order = (release.seconds, release.nanos) <= (drawn.seconds, drawn.nanos);
                assert!(order, "won before its release: {response:?}");
            }
        }
        self.draws.push((request, response));
    }

    async fn compare_stats(&self, server: &Server) {
        let mut campaigns = server.campaigns().await;
        for id in IDS {
            let campaign_id = id.to_owned();
            let request = GetStatsRequest { campaign_id };
            let stats = campaigns.get_stats(request).await.unwrap().into_inner();
            assert!(stats.balanced, "{stats:#?}");
            let made = self
                .draws
                .iter()
                .filter(|(request, _)| request.campaign_id == id);
            let results = made.flat_map(|(_, response)| &response.results);
            let mut counts = BTreeMap::<_, u64>::new();
            for result in results {
                *counts.entry(result.outcome()).or_default() += 1;
            }
            let known = |outcome| counts.get(&outcome).copied().unwrap_or(0);
            assert_eq!(stats.wins, known(Outcome::Won), "{id}: wins");
            assert_eq!(
                stats.consolations,
                known(Outcome::Consolation),
                "{id}: consolations"
            );
            assert_eq!(stats.nothings, known(Outcome::Nothing), "{id}: nothings");
            assert_eq!(stats.draws, counts.values().sum::<u64>(), "{id}: draws");
        }
    }

    async fn compare_limits(&self, server: &Server) {
        let mut lottery = server.lottery().await;
        for ((campaign, user), used) in &self.users {
            let request = CheckLimitRequest {
                campaign_id: campaign.clone(),
                user_id: user.clone(),
                segments: Vec::new(),
            };
            let check = lottery.check_limit(request).await.unwrap().into_inner();
            let limits = check.limits.unwrap();
            let quotas = [
                (limits.draws_today, used.free),
                (limits.paid_draws_today, used.paid),
                (limits.draws_total, used.free + used.paid),
                (limits.wins_total, used.wins),
            ];
            for (quota, known) in quotas {
                let quota = quota.unwrap();
                assert_eq!(quota.used, known, "{user} in {campaign}: {limits:?}");
                let limit = quota.limit.unwrap_or(u64::MAX);
                assert!(known <= limit, "{user} in {campaign} exceeds {limits:?}");
            }
        }
    }
}

/// Does the same for each item, over a few connections.
async fn in_parallel<T, R, F>(
    server: &Server,
    items: Vec<T>,
    work: impl Fn(Lottery, T) -> F + Copy + Send + 'static,
) -> Vec<R>
where
    T: Clone + Send + 'static,
    R: Send + 'static,
    F: Future<Output = Option<R>> + Send,
{
    let mut hands = JoinSet::new();
    for share in items.chunks(items.len().div_ceil(CONNECTIONS).max(1)) {
        let (lottery, share) = (server.lottery().await, share.to_vec());
        hands.spawn(async move {
            let mut done = Vec::new();
            for item in share {
                done.extend(work(lottery.clone(), item).await);
            }
            done
        });
    }
    hands.join_all().await.into_iter().flatten().collect()
}

/// Finds the outcome of a draw. An acknowledged draw must be found as it was answered, and a
/// refused one must not exist. Any other is settled by a retry, which has one effect however often
/// it is sent.
async fn settled(mut lottery: Lottery, attempt: Attempt) -> Option<(DrawRequest, DrawResponse)> {
    let Attempt { request, heard } = attempt;
    let found = find(&mut lottery, &request).await;
    let answer = match (heard, found) {
        (Heard::Answer(answer), found) => {
            assert_eq!(found, Some(replayed(&answer)), "acknowledged: {request:?}");
            *answer
        }
        (Heard::Refused, None) => return None,
        (Heard::Refused, Some(found)) => panic!("refused, but made: {request:?} {found:?}"),
        (Heard::Nothing, Some(found)) => found,
        (Heard::Nothing, None) => match lottery.draw(request.clone()).await {
            Ok(response) => {
                let response = response.into_inner();
                assert!(!response.replayed, "made, but not found: {request:?}");
                response
            }
            Err(status) => {
                assert!(matches!(heard_from(&status), Heard::Refused), "{status:?}");
                return None;
            }
        },
    };
    let retry = lottery.draw(request.clone()).await.unwrap().into_inner();
    assert_eq!(retry, replayed(&answer), "{request:?}");
    Some((request, answer))
}

async fn find(lottery: &mut Lottery, request: &DrawRequest) -> Option<DrawResponse> {
    let names = GetDrawRequest {
        campaign_id: request.campaign_id.clone(),
        user_id: request.user_id.clone(),
        request_id: request.request_id.clone(),
    };
    match lottery.get_draw(names).await {
        Ok(response) => Some(response.into_inner().draw.unwrap()),
        Err(status) => {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
            None
        }
    }
}

/// The answer as a retry gets it.
fn replayed(answer: &DrawResponse) -> DrawResponse {
    DrawResponse {
        replayed: true,
        ..answer.clone()
    }
}
