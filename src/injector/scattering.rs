//! Heavy computations: they run on threads of their own, away from those that answer calls, and
//! only as many at once as memory has room for.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    chance::Release,
    model::convert::HOUR_UNITS_MAX,
    store::{Executed, Result, StoreError, fill::FillRecord},
};

/// Units from which on the work takes long enough to be handed to a thread of its own: about half a
/// millisecond. Less than that takes no room either.
const LONG_UNITS: u64 = 5_000;

/// Who waits for a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Nobody: it is done ahead of time.
    Ahead,
    /// A draw.
    Needed,
}

/// Room for what is computed. Each of the two has room for the units of the largest hour (ten
/// million take 160 MB), so a draw never waits for what is done ahead of time.
pub(super) struct Scattering {
    ahead: Arc<Semaphore>,
    needed: Arc<Semaphore>,
}

/// What was computed, and the room that it takes until it is dropped.
pub(super) struct Roomed<T> {
    pub(super) value: T,
    room: Mutex<Room>,
    /// Whoever moves it to another room. A second one would wait for room that it holds itself.
    moving: tokio::sync::Mutex<()>,
}

struct Room {
    urgency: Urgency,
    /// None for what is small.
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for Scattering {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(HOUR_UNITS_MAX as usize));
        Self {
            ahead: room(),
            needed: room(),
        }
    }
}

impl Scattering {
    /// Runs work on this number of units once there is room for them.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        urgency: Urgency,
        units: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Roomed<T>> {
        let permit = match units {
            ..LONG_UNITS => None,
            _ => Some(self.room(urgency, units).await?),
        };
        let is_long = permit.is_some();
        let compute = move || Roomed {
            value: work(),
            room: Mutex::new(Room { urgency, permit }),
            moving: tokio::sync::Mutex::default(),
        };
        if !is_long {
            return Ok(compute());
        }
        let computed = tokio::task::spawn_blocking(compute).await;
        computed.map_err(|_| failed("has failed"))
    }

    /// Moves a result to the room of what is done ahead of time, if a draw needed it and does
    /// not any more.
    pub(super) async fn move_ahead<T>(&self, roomed: &Roomed<T>, units: u64) -> Result<()> {
        let _moving = roomed.moving.lock().await;
        if !roomed.is_in_needed_room() {
            return Ok(());
        }
        let permit = self.room(Urgency::Ahead, units).await?;
        *roomed.room() = Room {
            urgency: Urgency::Ahead,
            permit: Some(permit),
        };
        Ok(())
    }

    async fn room(&self, urgency: Urgency, units: u64) -> Result<OwnedSemaphorePermit> {
        let room = match urgency {
            Urgency::Ahead => &self.ahead,
            Urgency::Needed => &self.needed,
        };
        // A plan that was accepted before hours were bounded takes all the room that there is.
        let permits = u32::try_from(units.min(HOUR_UNITS_MAX)).unwrap_or(u32::MAX);
        let permit = Arc::clone(room).acquire_many_owned(permits).await;
        permit.map_err(|_| failed("is closed"))
    }
}

impl<T> Roomed<T> {
    fn room(&self) -> std::sync::MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_in_needed_room(&self) -> bool {
        let room = self.room();
        room.urgency == Urgency::Needed && room.permit.is_some()
    }
}

/// The releases of a fill, in order.
pub(super) struct Releases {
    /// Which fill; how far it is filled is no part of that.
    fill: FillRecord,
    pub(super) units: Vec<Release>,
}

impl Releases {
    pub(super) fn new(fill: &FillRecord, units: Vec<Release>) -> Self {
        Self {
            fill: name(fill),
            units,
        }
    }
}

fn name(fill: &FillRecord) -> FillRecord {
    FillRecord {
        filled: 0,
        until: fill.from,
        ..fill.clone()
    }
}

/// The releases of a pool that someone is putting in at the moment, so that others need not compute
/// them again.
#[derive(Default)]
pub(super) struct InUse(Mutex<Weak<Roomed<Releases>>>);

impl InUse {
    /// The releases of this fill, if someone has them.
    pub(super) fn get(&self, fill: &FillRecord) -> Option<Arc<Roomed<Releases>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.upgrade()?;
        (known.value.fill == name(fill)).then_some(known)
    }

    /// Lets others find these.
    pub(super) fn set(&self, releases: &Arc<Roomed<Releases>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(releases);
    }
}

fn failed(what: &str) -> StoreError {
    StoreError::Unavailable {
        executed: Executed::No,
        detail: format!("the injector's computing {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u64 = HOUR_UNITS_MAX;

    #[tokio::test]
    async fn heavy_work_is_done_on_another_thread_and_light_work_is_not() {
        let scattering = Scattering::default();
        let here = std::thread::current().id();
        let thread = || std::thread::current().id();
        let light = scattering.compute(Urgency::Ahead, LONG_UNITS - 1, thread);
        assert_eq!(light.await.unwrap().value, here);
        for urgency in [Urgency::Ahead, Urgency::Needed] {
            let heavy = scattering.compute(urgency, LONG_UNITS, thread);
            assert_ne!(heavy.await.unwrap().value, here);
        }
    }

    #[tokio::test]
    async fn what_a_draw_needs_finds_room_beside_what_is_done_ahead() {
        let scattering = Scattering::default();
        let ahead = scattering.compute(Urgency::Ahead, LARGE, || ()).await;
        let needed = scattering.compute(Urgency::Needed, LARGE, || ()).await;
        assert_eq!(scattering.ahead.available_permits(), 0);
        assert_eq!(scattering.needed.available_permits(), 0);
        drop(ahead);
        let needed = needed.unwrap();
        scattering.move_ahead(&needed, LARGE).await.unwrap();
        assert_eq!(scattering.ahead.available_permits(), 0);
        assert_eq!(scattering.needed.available_permits(), LARGE as usize);
        drop(needed);
        assert_eq!(scattering.ahead.available_permits(), LARGE as usize);
    }

    #[tokio::test]
    async fn more_than_an_hour_may_have_takes_all_the_room_and_no_more() {
        let scattering = Scattering::default();
        let all = scattering.compute(Urgency::Ahead, u64::MAX, || 1).await;
        assert_eq!(all.unwrap().value, 1);
        assert_eq!(scattering.ahead.available_permits(), LARGE as usize);
    }
}
