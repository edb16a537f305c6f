//! The list of replicas. It is in the first partition, which every store has.

use redis::Value;

use crate::store::redis::{
    core::Core,
    format::{
        reply::{self, unexpected},
        scripts,
    },
    step::campaign::{from_json, to_json},
};
use crate::{
    model::Moment,
    store::{REPLICA_KEPT, Replica, ReplicaView, Result},
};

impl Core {
    /// Announces a replica; the time of the server.
    pub(crate) async fn announce(&self, id: &str, replica: &Replica) -> Result<Moment> {
        let (time, _) = self.announced(&[id.as_bytes(), &to_json(replica)]).await?;
        Ok(time)
    }

    /// Takes a replica off the list.
    pub(crate) async fn retire(&self, id: &str) -> Result<()> {
        self.announced(&[id.as_bytes(), b""]).await.map(drop)
    }

    /// The replicas that were announced of late. One that says what this version does not know is
    /// left out.
    pub(crate) async fn replicas(&self) -> Result<Vec<ReplicaView>> {
        let (_, listed) = self.announced(&[]).await?;
        let views = listed.chunks_exact(2);
        let views = views.filter_map(|view| view_of(&view[0], &view[1]).ok());
        Ok(views.collect())
    }

    /// Makes a change of the list, if any; the server's time, and the list before the change.
    async fn announced(&self, change: &[&[u8]]) -> Result<(Moment, Vec<Value>)> {
        let partition = self.partitions.first().ok_or_else(|| unexpected("list"))?;
        let keys = [&partition.partition, &partition.replicas];
        let kept = REPLICA_KEPT.as_micros().to_string();
        let args = [kept.as_bytes()].into_iter().chain(change.iter().copied());
        // Asked like a script that only reads: it needs no confirmation and no fork, since what a
        // failover takes is said again soon.
        let (_, mut parts) = self.ask(partition, &scripts::REPLICAS, keys, args).await?;
        let time = reply::moment(parts.next()?)?;
        Ok((time, reply::list(parts.next()?)?))
    }
}

fn view_of(id: &Value, announcement: &Value) -> Result<ReplicaView> {
    let announcement = reply::text(announcement.clone())?;
    let parts = announcement.split_once(' ');
    let (seen, says) = parts.ok_or_else(|| unexpected("announcement"))?;
    let seen = seen.parse().map_err(|_| unexpected("time"))?;
    Ok(ReplicaView {
        id: reply::text(id.clone())?,
        seen: Moment::from_micros(seen),
        replica: from_json(says.as_bytes())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ReplicaState;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn an_announcement_is_read_if_this_version_knows_what_it_says() {
        let replica = Replica {
            name: "pod-1:50051".into(),
            version: "0.1.0".into(),
            build: "abc".into(),
            started: Moment::from_micros(5),
            state: ReplicaState::NotReady,
            cause: "full".into(),
            skew_micros: Some(-7),
        };
        let says = String::from_utf8(to_json(&replica)).unwrap();
        let announcement = |says: &str| view_of(&text("id"), &text(&format!("12 {says}")));
        let expected = ReplicaView {
            id: "id".into(),
            seen: Moment::from_micros(12),
            replica,
        };
        assert_eq!(announcement(&says), Ok(expected.clone()));
        // What later versions add.
        let more = says.replacen('{', r#"{"colour":"red","#, 1);
        assert_eq!(announcement(&more), Ok(expected));
        for bad in ["", "{}", &says.replace("not_ready", "asleep")] {
            assert!(announcement(bad).is_err(), "{bad}");
        }
        assert!(view_of(&text("id"), &text("12")).is_err());
    }
}
