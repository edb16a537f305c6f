//! A server process.

use std::{
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tombola::proto::{
    campaign_service_client::CampaignServiceClient, lottery_service_client::LotteryServiceClient,
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::{
    NOW, PATIENCE,
    admin::Admin,
    command::{give, in_namespaces_of, on_a_small_disk, tombola},
    ended::Ended,
    output::Output,
};

/// How to start a server.
pub struct Start<'a> {
    pub data: &'a Path,
    pub clock: Option<String>,
    pub listen: &'a str,
    /// The largest size of a file, in bytes.
    pub file_bytes_max: Option<u64>,
    /// The process whose mounts the server sees.
    pub in_namespaces_of: Option<u32>,
    /// Further arguments.
    pub more: Vec<String>,
}

impl<'a> Start<'a> {
    /// A server on these data, on a free port and the test clock.
    pub fn on(data: &'a Path) -> Self {
        Self {
            data,
            clock: Some(NOW.into()),
            listen: "127.0.0.1:0",
            file_bytes_max: None,
            in_namespaces_of: None,
            more: Vec::new(),
        }
    }

    /// A server on a store in Redis and on the clock of Redis; the master key is in the directory.
    pub fn on_redis(data: &'a Path, url: &str) -> Self {
        Self {
            clock: None,
            more: vec!["--redis-url".into(), url.into()],
            ..Self::on(data)
        }
    }

    /// Adds arguments, written as on the command line.
    pub fn with(mut self, line: &str) -> Self {
        self.more.extend(line.split_whitespace().map(str::to_owned));
        self
    }

    /// Sets the test clock to another moment.
    pub fn at(self, clock: String) -> Self {
        Self {
            clock: Some(clock),
            ..self
        }
    }

    /// The command that starts the server.
    pub fn command(&self) -> Command {
        let mut command = match (self.file_bytes_max, self.in_namespaces_of) {
            (Some(bytes), _) => on_a_small_disk(bytes),
            (None, Some(process)) => in_namespaces_of(process),
            (None, None) => tombola([""; 0]),
        };
        command.args(["serve", "--listen", self.listen, "--data"]);
        command.arg(self.data);
        if let Some(clock) = &self.clock {
            command.args(["--clock-start", clock]);
        }
        give(&mut command, &self.more);
        command
    }

    /// Creates the store in Redis.
    pub fn init(&self) -> Ended {
        let mut command = tombola(["init", "--data"]);
        command.arg(self.data);
        if let Some(clock) = &self.clock {
            command.args(["--clock-start", clock]);
        }
        give(&mut command, &self.more);
        Ended::of(&mut command)
    }

    /// Starts the server, and waits until it serves.
    pub fn serve(&self) -> Server {
        self.serve_once(serving_address)
    }

    /// Starts the server, and waits until it waits for its store. The caller has chosen the
    /// address.
    pub fn wait(&self) -> Server {
        let address = self.listen.parse().unwrap();
        self.serve_once(|line| line.contains("not ready, waiting").then_some(address))
    }

    /// Starts the server, which has an admin port, and waits until it takes signals: its store may
    /// not be open yet.
    pub fn begin(&self) -> Server {
        let address = self.listen.parse().unwrap();
        self.serve_once(|line| line.contains("probes and metrics on").then_some(address))
    }

    fn serve_once(&self, is_there: impl Fn(&str) -> Option<SocketAddr>) -> Server {
        Server::started(self.command(), is_there)
    }

    /// Starts the server with another standard error, and waits until it accepts connections. The
    /// caller has chosen its port.
    pub fn serve_saying_to(&self, stderr: Stdio) -> Server {
        let mut child = self
            .command()
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let output = Output::of(&mut child);
        let address = self.listen.parse().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "it takes no connections");
            thread::sleep(Duration::from_millis(5));
        }
        Server {
            child,
            output,
            address,
            tls: None,
        }
    }

    /// Runs the server until it ends by itself.
    pub fn fail(&self) -> Ended {
        Ended::of(&mut self.command())
    }
}

/// The address in the line that says that the server serves.
fn serving_address(line: &str) -> Option<SocketAddr> {
    let (_, after) = line.split_once("serving on ")?;
    let address = after.split_whitespace().next()?;
    address.trim_end_matches([':', ',']).parse().ok()
}

/// A running server; it is killed when this is dropped.
pub struct Server {
    child: Child,
    output: Output,
    pub address: SocketAddr,
    /// How clients speak TLS, if they do.
    tls: Option<ClientTlsConfig>,
}

impl Server {
    /// Starts a server by this command, and waits until it serves.
    pub fn started_by(command: Command) -> Self {
        Self::started(command, serving_address)
    }

    fn started(mut command: Command, is_there: impl Fn(&str) -> Option<SocketAddr>) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = Output::of(&mut child);
        let address = output.wait_for(is_there);
        let address = address.unwrap_or_else(|| panic!("it did not serve:\n{}", output.text()));
        Self {
            child,
            output,
            address,
            tls: None,
        }
    }

    /// The same server, for clients that speak TLS and trust this authority.
    pub fn over_tls(mut self, authority: &str) -> Self {
        let trusted = Certificate::from_pem(authority);
        self.tls = Some(ClientTlsConfig::new().ca_certificate(trusted));
        self
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Its admin port.
    pub fn admin(&self) -> Admin {
        // The server says it before all that a start waits for.
        let said = self.output.text();
        let (_, address) = said.split_once("probes and metrics on ").unwrap();
        let address = address.split_whitespace().next().unwrap();
        Admin::at(address.parse().unwrap())
    }

    /// Opens a new connection.
    pub async fn connect(&self) -> Channel {
        let mut endpoint = Endpoint::from_shared(self.url()).unwrap();
        if let Some(tls) = &self.tls {
            endpoint = endpoint.tls_config(tls.clone()).unwrap();
        }
        endpoint.connect().await.unwrap()
    }

    /// A client of `LotteryService` on a new connection.
    pub async fn lottery(&self) -> LotteryServiceClient<Channel> {
        LotteryServiceClient::new(self.connect().await)
    }

    /// A client of `CampaignService` on a new connection.
    pub async fn campaigns(&self) -> CampaignServiceClient<Channel> {
        CampaignServiceClient::new(self.connect().await)
    }

    /// Runs a client command of `tombola` against this server.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(tombola(arguments).args(["--server", &self.url()]))
    }

    /// Kills the server as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.output.wait_for_end();
        self.child.wait().unwrap();
    }

    /// The words of its command line, as everybody on the machine can read them.
    pub fn command_line(&self) -> String {
        let path = format!("/proc/{}/cmdline", self.child.id());
        std::fs::read_to_string(path).unwrap().replace('\0', " ")
    }

    /// Sends the signal with this name, e.g. `TERM`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {pid}")])
            .status();
        assert!(sent.unwrap().success(), "kill -{name} {pid}");
    }

    /// Waits until the server prints this.
    pub fn says(&self, word: &str) {
        let said = self
            .output
            .wait_for(|line| line.contains(word).then_some(()));
        assert!(said.is_some(), "not said: {word}\n{}", self.output.text());
    }

    /// All its output until now.
    pub fn log(&self) -> String {
        self.output.text()
    }

    /// The memory that the server uses, and the most that it ever used, in bytes.
    pub fn memory_bytes(&self) -> (u64, u64) {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let kibibytes = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_end_matches("kB").trim().parse().unwrap()
        };
        (1024 * kibibytes("VmRSS:"), 1024 * kibibytes("VmHWM:"))
    }

    /// Waits until the server ends by itself; returns its exit code and all its output.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        self.output.wait_for_end();
        (self.child.wait().unwrap().code(), self.output.text())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("-- the server said:\n{}", self.output.text());
        }
    }
}
