//! The promises, each a plain function over a world. A store is added in [`promises`], nowhere else.

/// Registers each function once for every store. Whatever a function did, the audit comes after it.
macro_rules! promises {
    ($($promise:ident,)+) => {
        mod embedded {
            $(
                #[test]
                fn $promise() {
                    crate::conformance::run(async {
                        let mut world =
                            crate::support::World::new(crate::support::embedded::Embedded::new())
                                .await;
                        super::$promise(&mut world).await;
                        world.audit().await;
                    });
                }
            )+
        }
    };
}

mod decks;
mod injectors;
mod ledger;
mod limits;
mod midnight;
mod operators;
mod plans;
mod prizes;
mod recall;
mod refusals;
mod replay;
mod schedules;
mod versions;

fn run(promise: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(promise);
}
