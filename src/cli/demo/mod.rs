//! `tombola demo`: a server, a campaign and its users in one process. The users call over gRPC, and
//! a test clock skips the waiting.

mod crowd;
mod fault;
mod red_packet;
mod report;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    net::TcpListener,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tonic::transport::Channel;

use self::{
    crowd::{Crowd, Tally},
    fault::Fault,
};
use super::{
    client::{Client, Outcome},
    console_args, exposure,
    failure::{Exit, Failure},
    house::{self, Plan},
    listen::Listen,
    serve::{close, console_of, store_kind},
    settling::{Settling, reader},
    stop::stop_signal,
    store_args::StoreArgs,
};
use crate::{
    console::{Link, StoreKind},
    grpc::{
        self,
        server::{ServeError, Settings},
    },
    injector::{ENVELOPE_RETENTION_DEFAULT, Injector},
    ledger::{forget::Erasable, read::SettledLedger},
    model::{Moment, OperatorId, Problems, file},
    proto::{
        ApplyCampaignRequest, campaign_service_client::CampaignServiceClient,
        lottery_service_client::LotteryServiceClient,
    },
    store::clock::{Clock, ShiftedClock},
};

/// The campaign of the demo.
const CAMPAIGN: &str = include_str!("../../../deploy/campaigns/spring-wheel.yaml");
/// The pause between two users who draw once the story has been played.
const GUEST_PAUSE: Duration = Duration::from_millis(500);
/// Who operates the demo.
const OPERATOR: &str = "demo";
/// 28 November 2026, 18:00 in Shanghai: before an evening peak, a midnight and a special day with
/// twice the units.
const START_SECONDS: i64 = 1_795_860_000;
/// The users' step, and the number of steps: 30 hours.
const STEP: Duration = Duration::from_secs(600);
const STEPS: u32 = 180;
/// The clock moves by so much at once, and the injector ticks each time: each hour is injected
/// within its lead, as it would be in real time.
const STRIDE: Duration = Duration::from_secs(150);
/// How long before its start an hour is injected.
const LEAD: Duration = Duration::from_secs(300);
const REQUEST_MEMORY: Duration = Duration::from_secs(86_400);

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola demo --exit")]
pub(super) struct DemoArgs {
    /// The address that callers connect to
    #[arg(
        long,
        env = "TOMBOLA_DEMO_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:50051"
    )]
    pub(super) listen: Listen,
    /// The address of the console, pages in a browser
    #[arg(
        long,
        env = "TOMBOLA_DEMO_CONSOLE",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub(super) console: Listen,
    /// Keep the data in this directory [default: a temporary one]
    #[arg(long, env = "TOMBOLA_DEMO_DATA", value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Exit once all users have drawn, instead of serving on
    #[arg(long, env = "TOMBOLA_DEMO_EXIT")]
    pub(super) exit: bool,
    /// The number of users who draw
    #[arg(
        long,
        env = "TOMBOLA_DEMO_USERS",
        value_name = "N",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub(super) users: u32,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

/// Runs the demo.
pub(super) async fn run(client: &Client, args: DemoArgs) -> Outcome {
    let failed = |fault: Fault| Failure::start(Exit::Failed, "DEMO_FAILED", fault.to_string());
    let listener = args.listen.bind("--listen").await;
    let listener = listener.map_err(|error| failed(error.into()))?;
    // Nobody looks at a demo that ends by itself.
    let console = match args.exit {
        true => None,
        false => {
            let bound = args.console.bind("--console").await;
            Some(bound.map_err(|error| failed(error.into()))?)
        }
    };
    let bound = [
        ("--listen", Some(&listener)),
        ("--console", console.as_ref()),
    ];
    for (option, listener) in bound {
        if let Some(listener) = listener {
            exposure::check_demo(option, listener, client.tls.insecure)
                .map_err(|error| Failure::usage(error.to_string()))?;
        }
    }
    show(&args, listener, console).await.map_err(failed)
}

async fn show(
    args: &DemoArgs,
    listener: TcpListener,
    console: Option<TcpListener>,
) -> Result<(), Fault> {
    let address = listener.local_addr()?;
    let temporary = tempfile::tempdir()?;
    let data = args
        .data
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    let start = Moment::from_micros(START_SECONDS * 1_000_000);
    let clock = Arc::new(ShiftedClock::starting_at(start));
    let mut problems = Problems::default();
    let prefix = format!("tombola-demo-{:08x}", rand::random::<u32>());
    let redis = args.store.on_redis(&prefix, &mut problems);
    if !problems.is_empty() {
        return Err(problems.into());
    }
    let erasable = redis.is_none().then(|| Erasable::File(data.clone()));
    let plan = Plan {
        data,
        master_key: None,
        redis,
        init_if_empty: true,
        clock: Some(Arc::clone(&clock) as Arc<dyn Clock>),
        request_memory: REQUEST_MEMORY,
        envelope_retention: ENVELOPE_RETENTION_DEFAULT,
        lead: LEAD,
    };
    let store = store_kind(&plan);
    let injector = house::build(plan).await?;
    let mut stop_signal = std::pin::pin!(stop_signal()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let settings = Settings::default();
    let console = console.map(|port| open_console(port, &settings, &injector, store));
    let console = console.transpose()?;
    let ledger = reader(&injector, None, erasable);
    let wake = ledger.as_ref().map(|ledger| Arc::clone(&ledger.wake));
    let settling = Settling::start(&injector, None, |settler| {
        settler.woken_by(wake.unwrap_or_default())
    });
    let server = serve(listener, Arc::clone(&injector), (ledger, settings), stopped);
    let outcome = tokio::select! {
        outcome = play(args, address, &clock, &injector) => outcome,
        () = &mut stop_signal => Err("stopped before the end".into()),
    };
    let outcome = match outcome {
        Ok(crowd) if !args.exit => {
            report::invite(address);
            tokio::select! {
                () = go_on(crowd, &injector) => {}
                () = stop_signal => {}
            }
            Ok(())
        }
        outcome => outcome.map(drop),
    };
    drop(console);
    drop(stop);
    server.await??;
    if let Some(settling) = settling {
        settling.end().await;
    }
    close(injector).await;
    outcome
}

fn serve(
    listener: TcpListener,
    injector: Arc<Injector>,
    (ledger, settings): (Option<SettledLedger>, Settings),
    stopped: oneshot::Receiver<()>,
) -> JoinHandle<Result<(), ServeError>> {
    tokio::spawn(grpc::server::serve(
        listener,
        injector,
        ledger,
        settings,
        async {
            // The sender is never used. Dropping it stops the server.
            drop(stopped.await);
        },
    ))
}

async fn play(
    args: &DemoArgs,
    address: SocketAddr,
    clock: &ShiftedClock,
    injector: &Arc<Injector>,
) -> Result<Crowd, Fault> {
    let channel = Channel::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    let mut operators = CampaignServiceClient::new(channel.clone());
    let id = apply(&mut operators).await?;
    report::section(&format!(
        "{} users of campaign {id} draw through gRPC at {address}, from 28 November 18:00 to 30 \
         November 00:00 in Shanghai. The clock is a TEST clock: it skips the waiting.",
        args.users
    ));
    let bar = ProgressBar::new(u64::from(STEPS)).with_style(
        ProgressStyle::with_template("{bar:40} {percent}%  {msg}")?.progress_chars("█▌ "),
    );
    let mut crowd = Crowd::new(LotteryServiceClient::new(channel.clone()), &id, args.users);
    for step in 0..STEPS {
        injector.tick().await?;
        crowd.draw(local_hour(step)).await?;
        bar.set_message(format!("{} draws", crowd.tally().draws));
        bar.inc(1);
        pass(STEP, clock, injector).await?;
    }
    bar.finish_and_clear();
    let tally: &Tally = crowd.tally();
    report::show(&mut operators, &id, tally).await?;
    red_packet::show(&channel, clock, injector).await?;
    Ok(crowd)
}

/// Lets time pass.
async fn pass(time: Duration, clock: &ShiftedClock, injector: &Arc<Injector>) -> Result<(), Fault> {
    let mut left = time;
    while !left.is_zero() {
        let stride = left.min(STRIDE);
        clock.advance(stride);
        injector.tick().await?;
        left -= stride;
    }
    Ok(())
}

/// Serves the console, and prints the link that signs in.
fn open_console(
    port: TcpListener,
    settings: &Settings,
    injector: &Injector,
    store: StoreKind,
) -> Result<JoinSet<()>, Fault> {
    let operator = OperatorId::parse("operator", OPERATOR);
    let link = Link::new(operator.map_err(|problem| problem.message)?);
    report::section(&format!(
        "Open the console in a browser; the link signs in once:\n\n  http://{}{}",
        port.local_addr()?,
        link.path()
    ));
    let settings = console_of(settings, injector, store, Some(link));
    Ok(console_args::serve(port, settings))
}

/// Lets prizes fall while somebody looks. The campaign may have ended or be paused: then draws are
/// refused, and the demo serves on.
async fn go_on(mut crowd: Crowd, injector: &Arc<Injector>) {
    loop {
        drop(injector.tick().await);
        drop(crowd.welcome().await);
        sleep(GUEST_PAUSE).await;
    }
}

/// The hour of the day in Shanghai at a step.
fn local_hour(step: u32) -> u32 {
    (18 + step / 6) % 24
}

async fn apply(operators: &mut CampaignServiceClient<Channel>) -> Result<String, Fault> {
    let campaign = file::parse(CAMPAIGN)?
        .pop()
        .ok_or("the sample has no campaign")?;
    let id = campaign.id.clone();
    let request = ApplyCampaignRequest {
        campaign: Some(campaign),
        operator: OPERATOR.into(),
        reason: "to show how it works".into(),
        ..ApplyCampaignRequest::default()
    };
    operators
        .apply_campaign(request)
        .await
        .map_err(|status| format!("the sample campaign was not applied: {}", status.message()))?;
    Ok(id)
}
