//! Every permission with every method: an identity may call what its permission is for, and
//! nothing else; and what a request names must be its own.

use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _, Value,
};
use tombola::grpc::access::{
    Permission, Policy, Rpc,
    table::{is_proposable, permission},
};
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt as _;

use super::{ALL, Calls, Gate, is_denied, is_unknown, reason};

/// The message of a method's request.
fn request_of(rpc: Rpc) -> MessageDescriptor {
    let pool = DescriptorPool::decode(tombola::proto::FILE_DESCRIPTOR_SET).unwrap();
    let (service, method) = rpc.path()[1..].split_once('/').unwrap();
    let service = pool.get_service_by_name(service).unwrap();
    let mut methods = service.methods();
    methods.find(|it| it.name() == method).unwrap().input()
}

/// Calls a method; its first answer is not read.
async fn call(calls: &Calls, rpc: Rpc, message: DynamicMessage) -> Result<(), Status> {
    let mut client = Grpc::new(calls.connection());
    client.ready().await.unwrap();
    let codec = ProstCodec::<DynamicMessage, ()>::default();
    let path = PathAndQuery::from_static(rpc.path());
    let answer = client.server_streaming(Request::new(message), path, codec);
    answer.await.map(drop)
}

async fn call_empty(calls: &Calls, rpc: Rpc) -> Result<(), Status> {
    call(calls, rpc, DynamicMessage::new(request_of(rpc))).await
}

/// One identity for each permission, with it on everything.
fn one_each() -> String {
    let (mut roles, mut identities, mut bindings) = (String::new(), String::new(), String::new());
    for name in Permission::ALL.map(Permission::name) {
        roles += &format!("  only-{name}: [{name}]\n");
        identities += &format!("  - {{name: {name}, tokens: [{{sha256: <{name}>}}]}}\n");
        bindings += &format!(
            "  - {{identity: {name}, role: only-{name}, campaigns: [\"*\"], senders: [\"*\"]}}\n"
        );
    }
    format!("roles:\n{roles}identities:\n{identities}bindings:\n{bindings}")
}

#[tokio::test]
async fn each_permission_is_for_its_methods_and_for_no_others() {
    let gate = Gate::new(&one_each());
    for own in Permission::ALL {
        let calls = gate.by(own.name()).await;
        for rpc in Rpc::ALL {
            let answer = call_empty(&calls, rpc).await;
            if own == Permission::Propose && is_proposable(rpc) {
                let status = answer.unwrap_err();
                let said = reason(Code::FailedPrecondition, &status);
                assert_eq!(said, "APPROVAL_NEEDED", "{rpc:?}");
                continue;
            }
            if permission(rpc) != own {
                let status = is_denied(answer);
                let info = status.get_details_error_info().unwrap();
                assert_eq!(info.metadata["permission"], permission(rpc).name());
                continue;
            }
            // It is invalid, or a list of everything.
            if let Err(status) = answer {
                assert_eq!(status.code(), Code::InvalidArgument, "{rpc:?}: {status:?}");
            }
        }
    }
    let nobody = gate.by_nobody().await;
    for rpc in Rpc::ALL {
        is_unknown(call_empty(&nobody, rpc).await, "CREDENTIALS_MISSING");
    }
}

/// Puts an id into every field of a request that says what it is about; how many there are.
fn name(message: &mut DynamicMessage, id: &str) -> usize {
    let mut named = 0;
    let fields: Vec<_> = message.descriptor().fields().collect();
    for field in fields {
        match field.name() {
            "campaign_id" | "envelope_id" | "sender_id" => {
                message.set_field(&field, Value::String(id.into()));
                named += 1;
            }
            "campaign" => {
                let kind = field.kind();
                let mut campaign = DynamicMessage::new(kind.as_message().unwrap().clone());
                campaign.set_field_by_name("id", Value::String(id.into()));
                message.set_field(&field, Value::Message(campaign));
                named += 1;
            }
            _ => {}
        }
    }
    named
}

#[tokio::test]
async fn every_request_is_refused_on_what_is_not_the_caller_s() {
    let gate = Gate::new(&format!(
        r#"
roles: {{everything: {ALL}}}
identities: [{{name: shop, tokens: [{{sha256: <shop>}}]}}]
bindings: [{{identity: shop, role: everything, campaigns: ["mine-*"], senders: ["mine-*"]}}]
"#
    ));
    let calls = gate.by("shop").await;
    let mut checked = 0;
    for rpc in Rpc::ALL {
        let mut message = DynamicMessage::new(request_of(rpc));
        if name(&mut message, "other") > 0 {
            checked += 1;
            let status = is_denied(call(&calls, rpc, message.clone()).await);
            assert!(
                status.message().contains("\"other\""),
                "{rpc:?}: {status:?}"
            );
            name(&mut message, "mine-1");
            let answer = call(&calls, rpc, message.clone()).await;
            let code = answer.err().map_or(Code::Ok, |status| status.code());
            // Nobody has made an envelope, so none is known to be the caller's.
            let has_envelope = message.has_field_by_name("envelope_id");
            let has_sender = message.has_field_by_name("sender_id");
            let is_hidden = has_envelope && !has_sender;
            assert_eq!(
                code == Code::PermissionDenied,
                is_hidden,
                "{rpc:?}: {code:?}"
            );
        }
    }
    assert!(checked > 25, "{checked}");
    is_denied(call_empty(&calls, Rpc::GetStats).await);
}

#[tokio::test]
async fn a_refusal_does_not_say_whether_something_exists() {
    let gate = Gate::new(&format!(
        r#"
roles: {{everything: {ALL}}}
identities:
  - {{name: owner, tokens: [{{sha256: <owner>}}]}}
  - {{name: shop, tokens: [{{sha256: <shop>}}]}}
bindings:
  - {{identity: owner, role: everything, campaigns: ["*"], senders: ["*"]}}
  - {{identity: shop, role: everything, campaigns: ["mine-*"], senders: ["mine-*"]}}
"#
    ));
    let owner = gate.by("owner").await;
    owner.apply("known").await.unwrap();
    owner.envelope("known", "sender").await.unwrap();
    owner.envelope("mine", "mine-1").await.unwrap();
    let shop = gate.by("shop").await;
    shop.grab("mine", "u").await.unwrap();
    let said = |status: Status, id: &str| {
        let info = status.get_details_error_info().unwrap();
        let metadata: std::collections::BTreeMap<_, _> = info.metadata.into_iter().collect();
        format!("{} {metadata:?}", status.message()).replace(id, "…")
    };
    let known = said(is_denied(shop.draw("known", "u").await), "known");
    assert_eq!(
        known,
        said(is_denied(shop.draw("never", "u").await), "never")
    );
    let known = said(is_denied(shop.grab("known", "u").await), "known");
    assert_eq!(
        known,
        said(is_denied(shop.grab("never", "u").await), "never")
    );
}

#[test]
fn the_documents_list_every_method_with_its_permission() {
    let page = std::fs::read_to_string(crate::process::project("docs/access.md")).unwrap();
    for own in Permission::ALL {
        let row = format!("| `{}` |", own.name());
        let row = page.lines().find(|line| line.starts_with(&row));
        let row = row.unwrap_or_else(|| panic!("no row for {own}"));
        for rpc in Rpc::ALL {
            let name = format!("`{rpc:?}`");
            assert_eq!(
                row.contains(&name),
                permission(rpc) == own,
                "{name} in {row}"
            );
        }
    }
}

#[test]
fn the_files_that_are_shown_and_shipped_are_right() {
    let page = std::fs::read_to_string(crate::process::project("docs/access.md")).unwrap();
    let (_, example) = page.split_once("```yaml file=access.yaml norun\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let shipped = crate::process::project("deploy/kustomize/overlays/production/access.yaml");
    let shipped = std::fs::read_to_string(shipped).unwrap();
    for text in [example, &shipped] {
        let policy = Policy::parse(text, std::path::Path::new("/etc"));
        assert!(policy.unwrap().identities().count() > 1);
    }
}
