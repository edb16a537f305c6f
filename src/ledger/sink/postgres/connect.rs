//! A connection to PostgreSQL.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::{Client, config::SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{super::SinkError, url::PostgresUrl};

/// How long a connection may take, until it can be used.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent bytes may stay without an acknowledgement of the other machine.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a session begins with. A settler that hangs must not hold the cursor's row for ever, and
/// nobody waits for ever for one that does. The server notices within half a minute that the other
/// machine is gone: until then the session keeps the lock of the settler that works. Only `off` and
/// `local` of `synchronous_commit` keep less than the server's disk and its synchronous standbys
/// do, so only these are raised.
const BEGIN: &str = "
    SET idle_in_transaction_session_timeout = '20s';
    SET lock_timeout = '10s';
    SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '20s';
    SET timezone = 'UTC';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');
";

/// Connects. The connection ends when the client is dropped.
pub(super) async fn connect(url: &PostgresUrl) -> Result<Client, SinkError> {
    let mut config = url.config()?;
    config
        .application_name("tombola")
        .connect_timeout(CONNECT_MAX)
        .tcp_user_timeout(SILENCE_MAX);
    let work = async {
        let client = if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client
        } else {
            let tls = url.tls()?.config()?;
            let (client, connection) = config.connect(MakeRustlsConnect::new(tls)).await?;
            tokio::spawn(connection);
            client
        };
        client.batch_execute(BEGIN).await?;
        Ok(client)
    };
    let connected = timeout(2 * CONNECT_MAX, work).await;
    connected.unwrap_or(Err(SinkError::TimedOut(2 * CONNECT_MAX)))
}
