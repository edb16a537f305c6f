//! The overlay `production` with campaigns from files, as its comments say: the job is rendered, is
//! valid, and may do what it does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tombola::grpc::access::TokenHash;

use super::{
    manifests::{VERSIONS, known, strings, validate},
    render::{Rendered, copy, list, replace, text},
};
use crate::{
    process::{Ended, Start, project, tombola},
    support::certificates::{Authority, Wanted},
};

/// What is to be uncommented: the component, its ConfigMap, its patch and its name.
const PARTS: [&str; 4] = [
    "  # - ../../components/campaigns\n",
    "  # - name: tombola-apply\n  #   files:\n  #     - campaigns.yaml\n",
    "  # - path: apply-over-tls.yaml\n  #   target:\n  #     kind: Job\n  \
     #     name: tombola-apply\n",
    "  # - ../../image-of-jobs/apply\n",
];

/// The overlay with these parts, and the campaigns of the overlay `trial`.
fn rendered() -> (TempDir, Rendered) {
    let (directory, kustomize) = copy();
    let overlay = kustomize.join("overlays/production");
    for part in PARTS {
        replace(
            &overlay.join("kustomization.yaml"),
            part,
            &part.replace("  # ", "  "),
        );
    }
    let campaigns = kustomize.join("overlays/trial/campaigns.yaml");
    fs::copy(campaigns, overlay.join("campaigns.yaml")).unwrap();
    let rendered = Rendered::of(&kustomize, "production");
    (directory, rendered)
}

/// The pod of the job.
fn pod(rendered: &Rendered) -> &serde_json::Value {
    let pods = rendered.pods();
    let job = pods
        .into_iter()
        .find(|(name, _)| name.starts_with("tombola-apply-"));
    job.expect("the job with the hash of its settings").1
}

#[test]
fn the_job_is_valid_and_names_what_is_there() {
    let (_directory, rendered) = rendered();
    for version in VERSIONS {
        validate(version, &[&rendered.text]).well();
    }
    let pod = pod(&rendered);
    let container = &pod["spec"]["containers"][0];
    let variables = rendered.variables(container);
    let names: Vec<String> = variables.iter().map(|(name, _)| name.clone()).collect();
    known("apply", &strings(&container["args"]), &names);
    // Each file lies in a volume that the pod mounts, and the volume has that file.
    for path in variables.iter().filter_map(|(_, value)| value.as_deref()) {
        let Some(file) = path.strip_prefix("/run/tombola/") else {
            assert_eq!(path, "https://tombola:50051");
            continue;
        };
        let (volume, file) = file.split_once('/').unwrap();
        let mounts = list(&container["volumeMounts"]).iter();
        let mount = mounts
            .clone()
            .find(|it| text(&it["name"]) == volume)
            .unwrap();
        assert_eq!(text(&mount["mountPath"]), format!("/run/tombola/{volume}"));
        let mut volumes = list(&pod["spec"]["volumes"]).iter();
        let volume = volumes.find(|it| text(&it["name"]) == volume).unwrap();
        let secret = &volume["secret"];
        let page = fs::read_to_string(project("docs/kubernetes.md")).unwrap();
        let name = text(&secret["secretName"]);
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/kubernetes.md has no {name}"
        );
        // The job has the authority's certificate only, and not the server's key.
        let items: Vec<_> = list(&secret["items"])
            .iter()
            .map(|it| text(&it["path"]))
            .collect();
        assert_eq!(
            items,
            if file == "ca.crt" {
                vec!["ca.crt"]
            } else {
                vec![]
            }
        );
    }
}

/// Where a file of the pod is here.
fn here(directory: &Path, value: &str) -> PathBuf {
    let name = value.rsplit('/').next().unwrap();
    directory.join(name)
}

#[test]
fn the_job_applies_campaigns_over_tls_with_the_rights_that_are_shipped() {
    const TOKEN: &str = "tombola_of_the_job";
    let (_directory, rendered) = rendered();
    let container = &pod(&rendered)["spec"]["containers"][0];
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(files.path().join(name), text).unwrap();
    // What the Secrets and ConfigMaps have.
    let authority = Authority::new("internal");
    let server = authority.sign(&Wanted {
        hosts: &["tombola"],
        ..Wanted::server()
    });
    server.write(files.path(), "tls");
    write("ca.crt", &authority.pem);
    write("token", TOKEN);
    let shipped = project("deploy/kustomize/overlays/production/access.yaml");
    let shipped = fs::read_to_string(shipped).unwrap();
    let (before, apply) = shipped.split_once("  - name: apply\n").unwrap();
    let hash = apply
        .split("sha256: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    let apply = apply.replace(hash, &TokenHash::of(TOKEN).to_string());
    write("access.yaml", &format!("{before}  - name: apply\n{apply}"));
    let map = rendered.kind("ConfigMap").find(|map| {
        let name = text(&map["metadata"]["name"]);
        name.starts_with("tombola-apply-")
    });
    write(
        "campaigns.yaml",
        text(&map.unwrap()["data"]["campaigns.yaml"]),
    );

    let path = files.path().display();
    let options =
        format!("--tls-cert {path}/tls.crt --tls-key {path}/tls.key --access {path}/access.yaml");
    let data = files.path().join("data");
    let server = Start::on(&data).with(&options).serve();
    let run = || {
        let arguments = strings(&container["args"]).into_iter();
        let arguments = arguments.map(|word| match word.split_once('=') {
            Some((option, file)) if file.starts_with('/') => {
                format!("{option}={}", here(files.path(), file).display())
            }
            _ => word,
        });
        let mut command = tombola(arguments);
        for (name, value) in rendered.variables(container) {
            let value = value.unwrap();
            match name.as_str() {
                // The name is not in the DNS of this machine.
                "TOMBOLA_SERVER" => {
                    let host = value.replace("tombola:50051", &server.address.to_string());
                    command
                        .env(name, host)
                        .env("TOMBOLA_TLS_SERVER_NAME", "tombola");
                }
                _ => {
                    command.env(name, here(files.path(), &value));
                }
            }
        }
        Ended::of(&mut command)
    };
    let said = run().well();
    assert!(said.contains("my-wheel"), "{said}");
    assert!(run().well().contains("my-wheel: unchanged"));
    write("token", "tombola_of_nobody");
    run().badly(1, &["token"]);
}
