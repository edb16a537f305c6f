//! The promises, each as a function that runs on any store. To add a store, add it to [`promises`]
//! only.

/// Registers each function once for every store. The audit runs after each function.
macro_rules! promises {
    ($($promise:ident,)+) => {
        $crate::conformance::promises_on! {
            embedded,
            $crate::support::embedded::Embedded::new(),
            $($promise,)+
        }
        $crate::conformance::promises_on! {
            memory,
            $crate::support::in_memory::InMemory::new(),
            $($promise,)+
        }
        $crate::conformance::promises_on! {
            redis,
            $crate::support::on_redis::OnRedis::single(),
            $($promise,)+
        }
        $crate::conformance::promises_on! {
            redis_cluster,
            $crate::support::on_redis::OnRedis::cluster(),
            $($promise,)+
        }
        $crate::conformance::promises_on! {
            redis_8,
            $crate::support::on_redis::OnRedis::single_of(
                $crate::support::program::Program::Redis8
            ),
            $($promise,)+
        }
        $crate::conformance::promises_on! {
            valkey_8,
            $crate::support::on_redis::OnRedis::single_of(
                $crate::support::program::Program::Valkey8
            ),
            $($promise,)+
        }
        $crate::conformance::promises_on! {
            valkey_8_cluster,
            $crate::support::on_redis::OnRedis::cluster_of(
                $crate::support::program::Program::Valkey8
            ),
            $($promise,)+
        }
    };
}

macro_rules! promises_on {
    ($store:ident, $host:expr, $($promise:ident,)+) => {
        mod $store {
            $(
                #[test]
                fn $promise() {
                    crate::conformance::run(async {
                        let mut world = crate::support::World::new($host).await;
                        super::$promise(&mut world).await;
                        world.audit().await;
                    });
                }
            )+
        }
    };
}
use promises_on;

mod backlog;
mod bonus;
mod budgets;
mod caps;
mod code_imports;
mod codes;
mod decks;
mod deliveries;
mod entries;
mod envelopes;
mod envelopes_end;
mod envelopes_made;
mod fills;
mod guarantees;
mod ids;
mod injectors;
mod ledger;
mod limits;
mod locks;
mod memory;
mod midnight;
mod operators;
mod people;
mod personal;
mod personal_guarantees;
mod plans;
mod prizes;
mod proposals;
mod recall;
mod refusals;
mod removals;
mod replay;
mod replicas;
mod schedules;
mod segments;
mod ten_pulls;
mod ticks;
mod unfilled;
mod unlimited;
mod versions;
mod wins;

fn run(promise: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(promise);
}
