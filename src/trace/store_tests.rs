use std::{num::NonZeroU32, pin::pin};

use hyper::HeaderMap;
use tokio::sync::mpsc;

use super::{
    super::{
        call::{Arrived, CallTrace, Tracer},
        queue::Queue,
        sampler::Sampler,
        span::Record,
    },
    *,
};
use crate::trace;

const SCRIPT: Operation = Operation::Script("draw");

struct Recorder {
    tracer: Tracer,
    records: mpsc::Receiver<Record>,
}

impl Recorder {
    fn new() -> Self {
        let (queue, records) = Queue::new();
        let sampler = Sampler::new(1.0, NonZeroU32::new(1_000_000).unwrap());
        let tracer = Tracer::new(sampler, queue);
        Self { tracer, records }
    }

    fn call(&self) -> (CallTrace, Arc<Span>) {
        let arrived = Arrived {
            method: Some("tombola.v1.LotteryService/Draw"),
            is_of_share: true,
            headers: &HeaderMap::new(),
            authority: None,
            at: Instant::now(),
        };
        let call = self.tracer.call(&arrived).unwrap();
        match call.scope() {
            Scope::Recorded(span) => (call, span),
            scope @ Scope::Unrecorded(_) => panic!("{scope:?}"),
        }
    }

    fn next(&mut self) -> Record {
        self.records.try_recv().unwrap()
    }
}

fn value(record: &Record, key: &str) -> Option<Value> {
    let mut attributes = record.noted.attributes.iter();
    let found = attributes.find(|(name, _)| *name == key);
    found.map(|(_, value)| value.clone())
}

#[test]
fn the_recorded_calls_of_a_batch_link_to_it_and_without_any_it_is_not_recorded() {
    let mut recorder = Recorder::new();
    assert!(batch(SCRIPT, [None, None].into_iter()).is_none());
    let ((one, first), (two, second)) = (recorder.call(), recorder.call());
    let calls = [None, Some(&first), Some(&second)].into_iter();
    let span = batch(SCRIPT, calls).unwrap();
    span.enter(|| event("reply"));
    span.end(None);
    let of_batch = recorder.next();
    assert_eq!(
        (&*of_batch.head.name, of_batch.head.kind),
        ("EVALSHA draw", Kind::Client)
    );
    assert_eq!(of_batch.head.parent, None);
    assert_eq!(of_batch.noted.events.len(), 1);
    let size = value(&of_batch, "db.operation.batch.size");
    assert_eq!(size, Some(Value::Number(3)));
    for call in [one, two] {
        call.end("OK", "");
        let of_call = recorder.next();
        assert_ne!(of_call.head.trace, of_batch.head.trace);
        let ids = (of_batch.head.trace, of_batch.head.id);
        assert_eq!(of_call.noted.links, [ids]);
    }
}

#[tokio::test]
async fn what_a_store_does_for_one_call_is_below_it_and_within_a_batch_is_part_of_that() {
    let mut recorder = Recorder::new();
    let (call, span) = recorder.call();
    let begin = || async { for_call(SCRIPT) };
    let begun = trace::within(Some(call.scope()), pin!(begin())).await;
    begun.unwrap().end(Some("away"));
    let below = recorder.next();
    assert_eq!(below.head.parent, Some((span.ids().1, false)));
    assert_eq!(below.head.trace, span.ids().0);
    assert_eq!(below.error, Some("away"));
    assert_eq!(value(&below, "error.type"), Some(Value::Name("away")));
    let of_batch = batch(SCRIPT, [Some(&span)].into_iter()).unwrap();
    let begun = trace::within(of_batch.scope(), pin!(begin())).await;
    assert!(begun.is_none());
    drop(of_batch);
    let cancelled = recorder.next();
    assert_eq!(cancelled.error, Some("cancelled"));
    let size = value(&cancelled, "db.operation.batch.size");
    assert_eq!(size, None, "one call is no batch");
    assert!(for_call(SCRIPT).is_none(), "no call is recorded");
}

#[tokio::test]
async fn a_call_of_many_steps_has_a_bounded_number_of_spans_and_links() {
    const STEPS: usize = 1_000;
    let mut recorder = Recorder::new();
    let (call, span) = recorder.call();
    let steps = async {
        for _ in 0..STEPS {
            if let Some(step) = for_call(SCRIPT) {
                step.end(None);
            }
            let span = batch(Operation::Transaction, [Some(&span)].into_iter());
            if let Some(span) = span {
                span.end(None);
            }
        }
    };
    trace::within(Some(call.scope()), pin!(steps)).await;
    call.end("OK", "");
    let (mut below, mut batches) = (0, 0);
    let of_call = loop {
        let record = recorder.next();
        match record.head.kind {
            Kind::Server => break record,
            Kind::Client => below += 1,
            Kind::Internal => batches += 1,
        }
    };
    let (links, dropped) = (of_call.noted.links.len(), of_call.noted.links_dropped);
    assert_eq!(links + dropped as usize, STEPS);
    assert_eq!(links, batches);
    assert!(links < 100 && below < 100, "{links} {below}");
    let left_out = i64::try_from(STEPS - below).unwrap();
    let noted = value(&of_call, "tombola.spans_left_out");
    assert_eq!(noted, Some(Value::Number(left_out)));
}

#[tokio::test]
async fn a_task_that_works_for_a_call_inherits_its_trace() {
    let recorder = Recorder::new();
    let (call, span) = recorder.call();
    let work = pin!(async {
        let alone = tokio::spawn(async { trace::ids() });
        let inherited = tokio::spawn(trace::inherit(async { trace::ids() }));
        (alone.await.unwrap(), inherited.await.unwrap())
    });
    let (alone, inherited) = trace::within(Some(call.scope()), work).await;
    assert_eq!(alone, None);
    let inherited = inherited.unwrap();
    assert_eq!(
        (inherited.trace, inherited.span),
        (span.ids().0, Some(span.ids().1))
    );
}
