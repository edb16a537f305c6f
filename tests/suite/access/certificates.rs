//! Client certificates that the access file names, over real TLS: who they are, what they may do,
//! and how that ends.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use tokio::{task::block_in_place, time::sleep};
use tombola::proto::{
    ListOperationsRequest, RecordedOperation, WatchEntriesRequest, WatchEntriesResponse,
};
use tonic::{
    Code, Status, Streaming,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

use super::{ALL, Bearer, Calls, Gate, is_denied, is_unknown, reason};
use crate::{
    process::{Ended, tombola},
    support::{
        certificates::{self, Authority, Signed, Wanted},
        redis_server::until,
    },
};

const SHOP: &str = "spiffe://example.org/ns/shop/sa/backend";

/// The access file; `shops` is what the shop may see.
fn policy(shops: &str) -> String {
    format!(
        r#"
roles: {{everything: {ALL}, backend: [draw, check, read], auditor: [read]}}
identities:
  - {{name: shop, certificates: [{{spiffe: "{SHOP}"}}]}}
  - {{name: olga, certificates: [{{subject: "CN=olga"}}]}}
  - {{name: audit, tokens: [{{sha256: <audit>}}]}}
bindings:
  - {{identity: shop, role: backend, campaigns: [{shops}], senders: [none]}}
  - {{identity: olga, role: everything, campaigns: ["*"], senders: ["*"]}}
  - {{identity: audit, role: auditor, campaigns: ["*"], senders: ["*"]}}
"#
    )
}

/// A server that knows its callers by their certificates, which need not have one.
struct Site {
    files: TempDir,
    authority: Authority,
    gate: Gate,
}

impl Site {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = certificates::make(files.path(), "server");
        let path = files.path().display();
        fs::write(files.path().join("revoked.crl"), authority.revoke(&[])).unwrap();
        let options = format!(
            "--tls-cert {path}/server.crt --tls-key {path}/server.key \
             --tls-client-ca {path}/ca.crt --tls-client-crl {path}/revoked.crl \
             --tls-client-auth optional"
        );
        let gate = Gate::with(&policy("mine"), &options);
        Self {
            files,
            authority,
            gate,
        }
    }

    /// A certificate for the shop.
    fn shop(&self) -> Signed {
        self.shop_until(Wanted::server().until)
    }

    fn shop_until(&self, until: SystemTime) -> Signed {
        self.authority.sign(&Wanted {
            uri: Some(SHOP),
            until,
            ..Wanted::client("shop")
        })
    }

    /// A certificate for the operator.
    fn olga(&self) -> Signed {
        self.authority.sign(&Wanted::client("olga"))
    }

    /// Calls over a new connection with this certificate, and perhaps with this token.
    async fn connect(&self, own: Option<&Signed>, token: Option<&str>) -> Result<Calls, String> {
        let authority = Certificate::from_pem(&self.authority.pem);
        let mut tls = ClientTlsConfig::new().ca_certificate(authority);
        if let Some(own) = own {
            tls = tls.identity(Identity::from_pem(&own.cert, &own.key));
        }
        let url = format!("https://{}", self.gate.server.address);
        let endpoint = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap();
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| format!("{error:?}"))?;
        let value = token.map(|token| format!("Bearer {token}").parse().unwrap());
        Ok(Calls {
            channel,
            bearer: Bearer(value),
        })
    }

    async fn by(&self, own: &Signed) -> Calls {
        self.connect(Some(own), None).await.unwrap()
    }

    /// Whether a new connection with this certificate can call.
    async fn is_served(&self, own: &Signed) -> bool {
        match self.connect(Some(own), None).await {
            // With TLS 1.3 the client is done before the server has looked at its certificate.
            Ok(calls) => calls.draw("mine", "probe").await.is_ok(),
            Err(_) => false,
        }
    }

    /// Runs a command with the files of this name.
    fn run(&self, own: &str, line: &str) -> Ended {
        let mut command = tombola(line.split_whitespace());
        command.current_dir(self.files.path());
        command.args(["--server", &format!("https://{}", self.gate.server.address)]);
        command.args(["--tls-ca", "ca.crt", "--tls-cert", &format!("{own}.crt")]);
        Ended::of(command.args(["--tls-key", &format!("{own}.key")]))
    }
}

async fn watch(calls: &Calls) -> Streaming<WatchEntriesResponse> {
    let request = WatchEntriesRequest {
        campaign_id: "mine".into(),
        unsettled: true,
        ..Default::default()
    };
    let mut stream = calls
        .ledger()
        .watch_entries(request)
        .await
        .unwrap()
        .into_inner();
    assert!(stream.message().await.unwrap().is_some());
    stream
}

/// Why a stream ends.
async fn end(mut stream: Streaming<WatchEntriesResponse>) -> Status {
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended without a reason"),
            Err(status) => return status,
        }
    }
}

async fn operations(calls: &Calls) -> Vec<RecordedOperation> {
    let all = ListOperationsRequest::default();
    let page = calls.ledger().list_operations(all).await;
    page.unwrap().into_inner().operations
}

#[tokio::test]
async fn a_caller_is_who_its_certificate_says() {
    let site = Site::new();
    let (shop, olga) = (site.by(&site.shop()).await, site.by(&site.olga()).await);
    for id in ["mine", "other"] {
        olga.apply(id).await.unwrap();
    }
    shop.draw("mine", "ann").await.unwrap();
    is_denied(shop.draw("other", "ann").await);
    is_denied(shop.apply("mine-2").await);
    let acts = operations(&olga).await;
    let said = acts
        .iter()
        .map(|act| (act.operator.as_str(), act.authenticated));
    assert_eq!(said.collect::<Vec<_>>(), [("olga", true), ("olga", true)]);

    let unnamed = Wanted::client("mallory");
    let other_id = Wanted {
        uri: Some("spiffe://example.org/ns/shop/sa/other"),
        ..Wanted::client("olga") // the id counts, whatever the subject says
    };
    let two_names = Wanted {
        uri: Some("https://example.org/shop"),
        ..Wanted::client("shop")
    };
    for wanted in [unnamed, other_id, two_names] {
        let calls = site.by(&site.authority.sign(&wanted)).await;
        let status = is_unknown(calls.draw("mine", "ann").await, "CREDENTIALS_INVALID");
        assert!(status.message().contains("no identity"), "{status:?}");
    }
    let nobody = site.connect(None, None).await.unwrap();
    is_unknown(nobody.draw("mine", "ann").await, "CREDENTIALS_MISSING");
    // A token counts before the certificate of the connection.
    let audit = site
        .connect(Some(&site.olga()), Some("audit"))
        .await
        .unwrap();
    audit.get("other").await.unwrap();
    is_denied(audit.apply("mine-2").await);
    let wrong = site
        .connect(Some(&site.olga()), Some("wrong"))
        .await
        .unwrap();
    is_unknown(wrong.get("other").await, "CREDENTIALS_INVALID");
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_one_that_has_expired_is_nobody_s() {
    let site = Site::new();
    site.by(&site.olga()).await.apply("mine").await.unwrap();
    assert!(site.is_served(&site.shop()).await);
    let wanted = || Wanted {
        uri: Some(SHOP),
        ..Wanted::client("shop")
    };
    assert!(
        !site
            .is_served(&Authority::new("test-ca").sign(&wanted()))
            .await
    );
    assert!(
        !site
            .is_served(&site.authority.sign(&wanted().expired()))
            .await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_ends_its_streams_and_no_others_of_its_identity() {
    let site = Site::new();
    site.by(&site.olga()).await.apply("mine").await.unwrap();
    let (stolen, kept) = (site.shop(), site.shop());
    let (thief, shop) = (site.by(&stolen).await, site.by(&kept).await);
    let (stream, mut own) = (watch(&thief).await, watch(&shop).await);
    let revoked = site.authority.revoke(&[&stolen]);
    fs::write(site.files.path().join("revoked.crl"), revoked).unwrap();
    end(stream).await;
    assert!(!site.is_served(&stolen).await);
    shop.draw("mine", "ann").await.unwrap();
    assert!(own.message().await.unwrap().is_some());
    assert!(site.is_served(&kept).await);
    let log = site.gate.server.log();
    assert!(
        log.contains("client's certificate is not accepted any more"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_without_a_gap() {
    const LEFT: Duration = Duration::from_secs(8);
    const PAUSE: Duration = Duration::from_millis(20);
    let site = Site::new();
    site.by(&site.olga()).await.apply("mine").await.unwrap();
    let old = site.shop_until(SystemTime::now() + LEFT);
    let before = site.by(&old).await;
    before.draw("mine", "ann").await.unwrap();
    let stream = watch(&before).await;
    let new = site.shop();
    let after = site.by(&new).await;
    after.draw("mine", "ann").await.unwrap();
    // The old one expires while its connection is open.
    let ended = end(stream);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            _ = &mut ended => break,
            drawn = after.draw("mine", "ann") => drawn.unwrap(),
        }
        sleep(PAUSE).await;
    }
    assert!(!site.is_served(&old).await);
    assert!(site.is_served(&new).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_access_file_takes_away_counts_at_once_for_open_connections() {
    let site = Site::new();
    site.by(&site.olga()).await.apply("mine").await.unwrap();
    let shop = site.by(&site.shop()).await;
    let stream = watch(&shop).await;
    site.gate.change(&policy("other"));
    is_denied::<()>(Err(end(stream).await));
    is_denied(shop.draw("mine", "ann").await);
    site.gate.change(&policy("mine"));
    shop.draw("mine", "ann").await.unwrap();
    let stream = watch(&shop).await;
    site.gate
        .change(&policy("mine").replace(SHOP, "spiffe://example.org/elsewhere"));
    let ended = end(stream).await;
    assert_eq!(reason(Code::Unauthenticated, &ended), "CREDENTIALS_INVALID");
    is_unknown(shop.draw("mine", "ann").await, "CREDENTIALS_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_act_as_the_identity_of_their_certificate() {
    let site = Site::new();
    let (olga, shop) = (site.olga(), site.shop());
    site.by(&olga).await.apply("mine").await.unwrap();
    olga.write(site.files.path(), "olga");
    shop.write(site.files.path(), "shop");
    site.run("shop", "draw mine ann").well();
    let words = ["permission stop", "tombola access check"];
    site.run("shop", "pause mine").badly(1, &words);
    site.run("olga", "pause mine --operator ben --reason drill")
        .well();
    let said = site.run("olga", "--json operations").well();
    for word in [
        "\"operator\": \"olga\"",
        "\"onBehalfOf\": \"ben\"",
        "\"reason\": \"drill\"",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let unnamed = site.authority.sign(&Wanted::client("mallory"));
    unnamed.write(site.files.path(), "mallory");
    site.run("mallory", "draw mine ann")
        .badly(1, &["no identity"]);

    let revoked = site.authority.revoke(&[&olga]);
    fs::write(site.files.path().join("revoked.crl"), revoked).unwrap();
    block_in_place(|| {
        until("the certificate is revoked", || {
            site.run("olga", "campaigns").code == Some(69)
        });
    });
    let words = ["this program's certificate", "revoked"];
    site.run("olga", "campaigns").badly(69, &words);
    site.run("shop", "check mine ann").well();
}
