//! `LedgerService`: lists of what has happened, from the settled ledger.

use std::{pin::pin, sync::Arc};

use prost::Message;
use tonic::Request;

mod codes;
mod currency;
mod cursor;
mod definition;
mod deliveries;
mod forget;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod requests;
mod slots;
mod token;
mod views;
mod watch;
mod watch_access;
mod watched;

use self::{
    currency::Currencies,
    requests::{Asked, DrawFilter, OperationFilter},
    token::{Binding, Token},
    watch::{Watch, Watches},
};
use super::{
    access::{Caller, Rpc, Senders, Visible},
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
    status::CallError,
};
use crate::{
    ledger::read::{
        LedgerReader, Position, ReadError, SettledLedger, definitions::Definitions, fresh,
    },
    model::{CampaignId, Moment, convert::moment_to_proto},
    proto::{self, ledger_service_server::LedgerService},
    store::{
        Entry, StoreError,
        entry::{Body, DrawEntry},
    },
};

/// The most bytes of the messages in a page of more than one: clients accept four million unless
/// they are set to accept more.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// The service.
pub(super) struct Ledger {
    desk: Arc<Desk>,
    settled: Option<SettledLedger>,
    definitions: Arc<Definitions>,
    currencies: Currencies,
    watches: Watches,
}

impl From<ReadError> for CallError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sink(error) => Self::LedgerUnavailable(error.to_string()),
            ReadError::Busy => StoreError::Overloaded.into(),
            ReadError::Unreadable { .. } | ReadError::UnreadableCampaign { .. } => {
                StoreError::corrupt(error.to_string()).into()
            }
        }
    }
}

/// A page that is being put together.
struct Page<M> {
    size: usize,
    messages: Vec<M>,
    bytes: usize,
    /// The row that was taken last, and the one before it.
    last: Option<Position>,
    before: Option<Position>,
    /// Rows that were read are left over.
    is_cut: bool,
}

impl<M: Message> Page<M> {
    fn new(size: usize) -> Self {
        Self {
            size,
            messages: Vec::new(),
            bytes: 0,
            last: None,
            before: None,
            is_cut: false,
        }
    }

    /// Whether the page takes the next row, which is here.
    fn takes(&mut self, position: Position) -> bool {
        if self.messages.len() == self.size || self.bytes >= PAGE_BYTES_MAX {
            self.is_cut = true;
            return false;
        }
        self.before = self.last.replace(position);
        true
    }

    /// Adds the message of the row that was taken last. False if the page would be too large with
    /// it: then the next page begins with this row.
    fn add(&mut self, message: M) -> bool {
        let bytes = self.bytes + message.encoded_len();
        if bytes > PAGE_BYTES_MAX && !self.messages.is_empty() {
            self.last = self.before;
            self.is_cut = true;
            return false;
        }
        self.bytes = bytes;
        self.messages.push(message);
        true
    }

    /// The token of the next page; empty if this is the last one. `more`: there may be rows behind
    /// those that were read.
    fn next(&self, more: bool, binding: Binding, complete_until: Option<Moment>) -> String {
        let last = self.last.filter(|_| self.is_cut || more);
        let token = last.map(|after| Token {
            after,
            complete_until,
        });
        token.map(|token| token.encode(binding)).unwrap_or_default()
    }
}

impl Ledger {
    pub(super) fn new(
        desk: Arc<Desk>,
        settled: Option<SettledLedger>,
        (stopping, senders): (tokio::sync::watch::Receiver<bool>, Arc<Senders>),
    ) -> Self {
        Self {
            desk,
            settled,
            definitions: Arc::default(),
            currencies: Currencies::default(),
            watches: Watches::new(stopping, senders),
        }
    }

    fn settled(&self) -> Result<&SettledLedger, CallError> {
        self.settled.as_ref().ok_or(CallError::LedgerNotSettled)
    }

    fn reader(&self) -> Result<&dyn LedgerReader, CallError> {
        Ok(&*self.settled()?.reader)
    }

    /// Waits until what the store has now is settled; see [`fresh::wait`].
    async fn wait_until_settled(&self, of: Option<&str>) -> Result<Option<Moment>, CallError> {
        let SettledLedger { reader, wake, .. } = self.settled()?;
        Ok(fresh::wait(self.desk.store(), &**reader, wake, of).await?)
    }

    fn store_id(&self) -> &str {
        &self.desk.store().info().store_id
    }

    /// Until when the list is complete, if it is not complete as a whole. The first page waits for
    /// what was in the store when it was asked for; the others go on with the same list.
    async fn complete_until<Q>(&self, asked: &Asked<Q>) -> Result<Option<Moment>, CallError> {
        match asked.token {
            Some(token) => Ok(token.complete_until),
            None => self.wait_until_settled(asked.of.as_deref()).await,
        }
    }

    async fn list_wins(
        &self,
        message: &proto::ListWinsRequest,
        visible: Visible,
    ) -> Result<proto::ListWinsResponse, CallError> {
        let (asked, delivery) = requests::wins(self.store_id(), message, visible)?;
        let reader = self.reader()?;
        let until = self.complete_until(&asked).await?;
        let found = reader.wins(&asked.query).await?;
        let mut page = Page::new(asked.size);
        let mut coded = Vec::new();
        for settled in &found.rows {
            if !page.takes(Position::of_win(settled)) {
                break;
            }
            if delivery.is_some_and(|state| views::delivery_state(settled) != state) {
                continue;
            }
            let win = &settled.win;
            let id = CampaignId::parse("campaign_id", &win.campaign)?;
            let store = self.desk.store();
            let definitions = &self.definitions;
            let campaign = definitions.version(store, reader, &id, win.version);
            let campaign = campaign.await?;
            let index = page.messages.len();
            if !page.add(views::win(settled, campaign.as_deref())) {
                break;
            }
            if codes::has_code(win, campaign.as_deref()) {
                coded.push((index, win));
            }
        }
        codes::add(reader, &mut page.messages, &coded).await?;
        Ok(proto::ListWinsResponse {
            next_page_token: page.next(found.more, asked.binding, until),
            wins: page.messages,
            complete_until: until.map(moment_to_proto),
        })
    }

    async fn list_draws(
        &self,
        message: &proto::ListDrawsRequest,
        visible: Visible,
    ) -> Result<proto::ListDrawsResponse, CallError> {
        let (asked, filter) = requests::draws(self.store_id(), message, visible)?;
        let reader = self.reader()?;
        let until = self.complete_until(&asked).await?;
        let found = reader.list(&asked.query).await?;
        let mut page = Page::new(asked.size);
        for entry in &found.rows {
            if !page.takes(Position::of_entry(entry)) {
                break;
            }
            let (Body::Draw(draw), Some(id)) = (&entry.body, entry.subject.campaign()) else {
                continue;
            };
            if filter.admits(draw) {
                let store = self.desk.store();
                let definitions = &self.definitions;
                let campaign = definitions.version(store, reader, id, draw.version);
                if !page.add(views::draw(entry, draw, campaign.await?.as_deref())) {
                    break;
                }
            }
        }
        Ok(proto::ListDrawsResponse {
            next_page_token: page.next(found.more, asked.binding, until),
            draws: page.messages,
            complete_until: until.map(moment_to_proto),
        })
    }

    async fn list_envelopes(
        &self,
        message: &proto::ListEnvelopesRequest,
        visible: Visible,
    ) -> Result<proto::ListEnvelopesResponse, CallError> {
        let asked = requests::envelopes(self.store_id(), message, visible)?;
        let until = self.complete_until(&asked).await?;
        let reader = self.reader()?;
        let found = reader.list(&asked.query).await?;
        let mut page = Page::new(asked.size);
        for entry in &found.rows {
            if !page.takes(Position::of_entry(entry)) {
                break;
            }
            if let Some(mut event) = views::envelope_event(entry) {
                event.currency = self.currencies.of(reader, entry).await?;
                if !page.add(event) {
                    break;
                }
            }
        }
        Ok(proto::ListEnvelopesResponse {
            next_page_token: page.next(found.more, asked.binding, until),
            events: page.messages,
            complete_until: until.map(moment_to_proto),
        })
    }

    async fn list_operations(
        &self,
        message: &proto::ListOperationsRequest,
        visible: Visible,
    ) -> Result<proto::ListOperationsResponse, CallError> {
        let (asked, filter) = requests::operations(self.store_id(), message, visible)?;
        let until = self.complete_until(&asked).await?;
        let found = self.reader()?.list(&asked.query).await?;
        let mut page = Page::new(asked.size);
        for entry in &found.rows {
            if !page.takes(Position::of_entry(entry)) {
                break;
            }
            let act = self.operation(entry).await?;
            if let Some(act) = act.filter(|act| filter.admits(act))
                && !page.add(act)
            {
                break;
            }
        }
        Ok(proto::ListOperationsResponse {
            next_page_token: page.next(found.more, asked.binding, until),
            operations: page.messages,
            complete_until: until.map(moment_to_proto),
        })
    }

    async fn get_activity(
        &self,
        message: &proto::GetActivityRequest,
    ) -> Result<proto::GetActivityResponse, CallError> {
        let hours = requests::activity(message)?;
        let reader = self.reader()?;
        let until = self
            .wait_until_settled(Some(hours.campaign.as_str()))
            .await?;
        let found = reader.activity(&hours.campaign, hours.between).await?;
        Ok(proto::GetActivityResponse {
            hours: found.iter().map(views::activity).collect(),
            complete_until: until.map(moment_to_proto),
        })
    }

    async fn operation(
        &self,
        entry: &Entry,
    ) -> Result<Option<proto::RecordedOperation>, CallError> {
        let id = entry.subject.campaign();
        let campaign = match id.filter(|_| views::needs_definition(entry)) {
            Some(id) => {
                let sources = (self.desk.store(), self.reader()?);
                definition::in_force(&self.definitions, sources, id, entry.at).await?
            }
            None => None,
        };
        Ok(views::operation(entry, campaign.as_deref()))
    }
}

impl DrawFilter {
    fn admits(&self, draw: &DrawEntry) -> bool {
        let outcome = |outcome| {
            let mut results = draw.results.iter();
            results.any(|result| views::outcome(result) == outcome)
        };
        self.funding.is_none_or(|funding| funding == draw.funding)
            && self.outcome.is_none_or(outcome)
    }
}

/// Whether an act was done by an operator, on its behalf, or as it had proposed.
fn is_by(act: &proto::RecordedOperation, operator: &str) -> bool {
    act.operator == operator || act.on_behalf_of == operator || act.proposed_by == operator
}

impl OperationFilter {
    fn admits(&self, act: &proto::RecordedOperation) -> bool {
        let names = |user: &str| act.user_ids.iter().any(|id| id == user);
        self.kind.is_none_or(|kind| kind == act.kind())
            && (self.operator.as_ref()).is_none_or(|id| is_by(act, id.as_str()))
            && (self.user.as_ref()).is_none_or(|user| names(user.as_str()))
    }
}

#[tonic::async_trait]
impl LedgerService for Ledger {
    type WatchEntriesStream = Watch;

    async fn watch_entries(
        &self,
        request: Request<proto::WatchEntriesRequest>,
    ) -> Reply<Self::WatchEntriesStream> {
        self.watch(request).await
    }

    async fn mark_delivered(
        &self,
        request: Request<proto::MarkDeliveredRequest>,
    ) -> Reply<proto::MarkDeliveredResponse> {
        Self::mark_delivered(self, request).await
    }

    async fn revoke_win(
        &self,
        request: Request<proto::RevokeWinRequest>,
    ) -> Reply<proto::RevokeWinResponse> {
        Self::revoke_win(self, request).await
    }

    async fn forget_user(
        &self,
        request: Request<proto::ForgetUserRequest>,
    ) -> Reply<proto::ForgetUserResponse> {
        Self::forget_user(self, request).await
    }

    async fn get_activity(
        &self,
        request: Request<proto::GetActivityRequest>,
    ) -> Reply<proto::GetActivityResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let work = pin!(self.get_activity(request.get_ref()));
        self.desk.read(deadline, work).await
    }

    async fn list_wins(
        &self,
        request: Request<proto::ListWinsRequest>,
    ) -> Reply<proto::ListWinsResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let visible = Caller::of(&request)?.visible(Rpc::ListWins);
        let work = pin!(self.list_wins(request.get_ref(), visible));
        self.desk.read(deadline, work).await
    }

    async fn list_draws(
        &self,
        request: Request<proto::ListDrawsRequest>,
    ) -> Reply<proto::ListDrawsResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let visible = Caller::of(&request)?.visible(Rpc::ListDraws);
        let work = pin!(self.list_draws(request.get_ref(), visible));
        self.desk.read(deadline, work).await
    }

    async fn list_envelopes(
        &self,
        request: Request<proto::ListEnvelopesRequest>,
    ) -> Reply<proto::ListEnvelopesResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let visible = Caller::of(&request)?.visible(Rpc::ListEnvelopes);
        let work = pin!(self.list_envelopes(request.get_ref(), visible));
        self.desk.read(deadline, work).await
    }

    async fn list_operations(
        &self,
        request: Request<proto::ListOperationsRequest>,
    ) -> Reply<proto::ListOperationsResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let visible = Caller::of(&request)?.visible(Rpc::ListOperations);
        let work = pin!(self.list_operations(request.get_ref(), visible));
        self.desk.read(deadline, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{proto::Win, store::LedgerId};

    fn position(sequence: u64) -> Position {
        let partition = 0;
        Position {
            at: Moment::EPOCH,
            id: LedgerId {
                partition,
                sequence,
            },
            index: 0,
        }
    }

    fn win(bytes: usize) -> Win {
        Win {
            prize_name: "x".repeat(bytes),
            ..Win::default()
        }
    }

    #[test]
    fn what_would_make_a_page_too_large_is_the_first_of_the_next_page() {
        let mut page = Page::new(100);
        assert!(page.takes(position(9)) && page.add(win(PAGE_BYTES_MAX / 2)));
        assert!(page.takes(position(8)), "it is passed over");
        assert!(page.takes(position(7)) && !page.add(win(PAGE_BYTES_MAX)));
        assert_eq!((page.messages.len(), page.last), (1, Some(position(8))));
        let binding = Binding::new("store", "wins", &proto::ListWinsRequest::default());
        let token = page.next(false, binding, None);
        let token = Token::decode(&token, binding).unwrap();
        assert_eq!(token.after, position(8));
    }

    #[test]
    fn a_page_has_one_element_however_large_that_is() {
        let mut page = Page::new(100);
        assert!(page.takes(position(9)) && page.add(win(2 * PAGE_BYTES_MAX)));
        assert!(!page.takes(position(8)));
        assert_eq!((page.messages.len(), page.last), (1, Some(position(9))));
    }
}
