//! What a service in production has: TLS, an access file with a token, metrics that are read each
//! second, and traces of a share of its calls. The bench makes the certificate and the token in a
//! directory of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
    time::{interval, timeout},
};
use tombola::{
    grpc::access::{Credentials, Permission, TokenHash, new_token},
    proto::ListCampaignsRequest,
};
use tonic::{Request, metadata::MetadataValue};

use crate::{
    collector::Collector,
    failure::{Failure, Outcome},
    redis_server::directory,
    service::{Address, Campaigns},
    tls::{Shown, Tls},
};

/// What they are, for people.
pub(crate) const PROTECTIONS: &str =
    "TLS, an access file and a token, metrics that are read each second, traces of 1% of the calls";
/// The share of calls that are traced.
const TRACED: &str = "0.01";
/// How often metrics are read, and how long that may take.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
const SCRAPE_TIME_MAX: Duration = Duration::from_secs(5);
/// The `traceparent` of a call that wants to be traced.
const TRACED_CALL: &str = "00-7a85f36c1d0e4b29a4c6e8f012345678-b7ad6b7169203331-01";
/// How long the first trace may take. A service sends what it has each second.
const TRACE_TIME_MAX: Duration = Duration::from_secs(20);

/// The protections of a service.
pub(crate) struct Protections {
    directory: TempDir,
    tls: Tls,
    credentials: Credentials,
    collector: Collector,
    scraper: Option<Scraper>,
}

impl Protections {
    /// Makes a certificate, a token and an access file below `parent`, and starts a collector.
    pub(crate) async fn make(parent: &Path) -> Outcome<Self> {
        let directory = directory(parent)?;
        let failed = |error: &dyn std::fmt::Display| {
            let message = format!("the files of TLS and access cannot be made: {error}");
            Failure::refused("NO_PROTECTIONS", message)
        };
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.map_err(|error| failed(&error))?;
        let certificate = made.cert.pem();
        let token = new_token();
        let hash = TokenHash::of(token.expose());
        let permissions = Permission::ALL.map(Permission::name).join(", ");
        let access = format!(
            "roles: {{all: [{permissions}]}}\n\
             identities:\n  - name: bench\n    tokens: [{{sha256: {hash}}}]\n\
             bindings:\n  \
             - {{identity: bench, role: all, campaigns: [\"*\"], senders: [\"*\"]}}\n"
        );
        for (name, text) in [
            ("tls.crt", &certificate),
            ("tls.key", &made.signing_key.serialize_pem()),
            ("access.yaml", &access),
        ] {
            fs::write(directory.path().join(name), text).map_err(|error| failed(&error))?;
        }
        let shown = Shown {
            ca: Some(certificate.as_bytes()),
            ..Shown::default()
        };
        Ok(Self {
            directory,
            tls: Tls::new(&shown).map_err(|fault| failed(&*fault))?,
            credentials: Credentials::of(token.expose()).map_err(|problem| failed(&problem))?,
            collector: Collector::start().await?,
            scraper: None,
        })
    }

    /// Gives a service its options: all that one in production has is named here.
    pub(crate) fn protect(&self, serve: &mut Command) {
        serve.arg("--tls-cert").arg(self.file("tls.crt"));
        serve.arg("--tls-key").arg(self.file("tls.key"));
        serve.arg("--access").arg(self.file("access.yaml"));
        serve.args(["--admin", "127.0.0.1:0"]);
        serve.args(["--otlp-endpoint", self.collector.url()]);
        serve.args(["--trace-sample", TRACED]);
    }

    /// How the service is called that serves at HOST:PORT.
    pub(crate) fn address(&self, address: &str) -> Address {
        let url = format!("https://{address}");
        Address::new(url, Some(self.tls.clone()), self.credentials.clone())
    }

    /// Reads metrics once, and from then on each second.
    pub(crate) async fn read_metrics(&mut self, admin: String) -> Outcome {
        self.scraper = None;
        scrape(&admin).await.map_err(|problem| unread(&problem))?;
        self.scraper = Some(Scraper::start(admin));
        Ok(())
    }

    /// Fails if metrics could not be read at some time, or no trace comes: the figures would not
    /// include them. A short load may have none of the share that is traced, so one more call asks
    /// for its trace.
    pub(crate) async fn check(&self, server: &mut Campaigns) -> Outcome {
        let mut call = Request::new(ListCampaignsRequest::default());
        call.metadata_mut()
            .insert("traceparent", MetadataValue::from_static(TRACED_CALL));
        server
            .list_campaigns(call)
            .await
            .map_err(Failure::answered)?;
        if timeout(TRACE_TIME_MAX, self.collector.first_span())
            .await
            .is_err()
        {
            let message = "the service sent no traces";
            return Err(Failure::refused("NO_TRACES", message));
        }
        let scraper = self.scraper.as_ref();
        match scraper.and_then(|scraper| scraper.problem.lock().ok()?.clone()) {
            Some(problem) => Err(unread(&problem)),
            None => Ok(()),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn unread(problem: &str) -> Box<Failure> {
    let message = format!("the metrics of the service cannot be read: {problem}");
    Failure::refused("NO_METRICS", message)
}

/// Reads metrics as Prometheus does, until it is dropped.
struct Scraper {
    task: JoinHandle<()>,
    /// Why they could not be read the last time they could not be.
    problem: Arc<Mutex<Option<String>>>,
}

impl Scraper {
    fn start(admin: String) -> Self {
        let problem = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&problem);
        let task = tokio::spawn(async move {
            let mut ticks = interval(SCRAPE_INTERVAL);
            loop {
                ticks.tick().await;
                if let Err(problem) = scrape(&admin).await {
                    *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
                }
            }
        });
        Self { task, problem }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the metrics once.
async fn scrape(admin: &str) -> Result<(), String> {
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    let read = async {
        let mut stream = TcpStream::connect(admin).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        std::io::Result::Ok(response)
    };
    let response = timeout(SCRAPE_TIME_MAX, read).await;
    let response = response.map_err(|_| "it takes too long".to_owned())?;
    let response = response.map_err(|error| error.to_string())?;
    let (status, _) = response.split_once("\r\n").unwrap_or_default();
    if status != "HTTP/1.1 200 OK" || !response.contains("tombola_") {
        return Err(format!("the answer is {status:?}"));
    }
    Ok(())
}
