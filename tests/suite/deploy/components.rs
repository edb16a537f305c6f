//! Components that the overlay `production` may take, and how it speaks TLS.

use std::{collections::BTreeSet, fs, process::Command};

use serde_json::Value;

use super::{
    manifests::{VERSIONS, validate},
    render::{Rendered, copy, list, replace, selects, text},
};
use crate::{
    process::{Ended, project, tombola},
    support::certificates::Authority,
};

/// The overlay `production` with a component that its comments name.
fn with(component: &str) -> Rendered {
    let (_directory, kustomize) = copy();
    let file = kustomize.join("overlays/production/kustomization.yaml");
    let line = format!("- ../../components/{component}");
    replace(&file, &format!("# {line}"), &line);
    Rendered::of(&kustomize, "production")
}

/// The volume of the pod's first container that is mounted at a path.
fn mounted<'r>(pod: &'r Value, path: &str) -> &'r Value {
    let spec = &pod["spec"];
    let mut mounts = list(&spec["containers"][0]["volumeMounts"]).iter();
    let mount = mounts.find(|mount| text(&mount["mountPath"]) == path);
    let name = &mount.unwrap_or_else(|| panic!("nothing at {path}"))["name"];
    let mut volumes = list(&spec["volumes"]).iter();
    volumes.find(|volume| volume["name"] == *name).unwrap()
}

fn paths(items: &Value) -> Vec<&str> {
    list(items).iter().map(|item| text(&item["path"])).collect()
}

#[test]
fn a_service_that_takes_tokens_of_the_cluster_reaches_its_keys() {
    const FILES: &str = "/run/tombola/cluster";
    let rendered = with("cluster-tokens");
    for version in VERSIONS {
        validate(version, &[&rendered.text]).well();
    }
    let pod = rendered.server();
    // The pod has no other token than that of this volume.
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    let sources = &mounted(pod, FILES)["projected"]["sources"];
    let token = text(&sources[0]["serviceAccountToken"]["path"]);
    // It is for the API server itself, so it names no audience.
    assert_eq!(sources[0]["serviceAccountToken"]["audience"], Value::Null);
    let authority = paths(&sources[1]["configMap"]["items"]);

    let example = project("deploy/kustomize/components/cluster-tokens/access.yaml");
    let example = fs::read_to_string(example).unwrap();
    let access: Value = serde_saphyr::from_str(&example).unwrap();
    let keys = &access["issuers"][0]["jwks"];
    assert_eq!(text(&keys["tokenFile"]), format!("{FILES}/{token}"));
    assert_eq!(authority.len(), 1);
    assert_eq!(text(&keys["caFile"]), format!("{FILES}/{}", authority[0]));
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("ca.crt"), Authority::new("cluster").pem).unwrap();
    fs::write(files.path().join("token"), "token").unwrap();
    let file = files.path().join("access.yaml");
    fs::write(
        &file,
        example.replace(FILES, &files.path().display().to_string()),
    )
    .unwrap();
    let file = file.display().to_string();
    let may = [
        "--identity",
        "shop",
        "--permission",
        "draw",
        "--campaign",
        "any",
    ];
    Ended::of(tombola(["access", "check", &file]).args(may)).well();

    let policy = &rendered.named("NetworkPolicy", "tombola-to-cluster")["spec"];
    assert!(selects(&policy["podSelector"], &pod["metadata"]["labels"]));
    let ports = list(&policy["egress"][0]["ports"]).iter();
    let ports: Vec<_> = ports.map(|it| it["port"].as_u64().unwrap()).collect();
    // The URL has the usual port; behind it the API server listens at its own.
    assert!(text(&keys["url"]).starts_with("https://kubernetes.default.svc/"));
    assert_eq!(ports, [443, 6443]);
}

#[test]
fn the_prometheus_operator_finds_the_metrics_of_every_pod_and_all_alerts() {
    let rendered = with("monitoring");
    let pod = rendered.server();
    let monitor = &rendered.named("PodMonitor", "tombola")["spec"];
    assert!(selects(&monitor["selector"], &pod["metadata"]["labels"]));
    let endpoint = &monitor["podMetricsEndpoints"][0];
    let ports = list(&pod["spec"]["containers"][0]["ports"]).iter();
    let ports: BTreeSet<_> = ports.map(|port| text(&port["name"])).collect();
    assert!(ports.contains(text(&endpoint["port"])), "{ports:?}");
    let path = &pod["metadata"]["annotations"]["prometheus.io/path"];
    assert_eq!(endpoint["path"], *path);

    let print = project("deploy/kustomize/components/monitoring/prometheus-rule");
    let printed = Ended::of(&mut Command::new(print)).well();
    let rule: Value = serde_saphyr::from_str(&printed).unwrap();
    let alerts = fs::read_to_string(project("deploy/compose/alerts.yaml")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    assert_eq!(rule["spec"], alerts);
    assert_eq!(rule["kind"], "PrometheusRule");
}

/// The URLs in docs/kubernetes.md name files, and a Secret may have these.
#[test]
fn authorities_and_certificates_of_redis_and_postgresql_are_where_urls_name_them() {
    let page = fs::read_to_string(project("docs/kubernetes.md")).unwrap();
    for rendered in Rendered::all().into_iter().skip(1) {
        let mut pods = 0;
        for (name, pod) in rendered.pods() {
            let stores: &[&str] = match name.rsplit_once('-').map_or(name, |(name, _)| name) {
                "tombola" => &["redis", "postgres"],
                "tombola-init" => &["redis"],
                "tombola-migrate" => &["postgres"],
                _ => continue,
            };
            for store in stores {
                let secret = &mounted(pod, &format!("/run/tombola/{store}"))["secret"];
                // It may lack some, so its pods start without them.
                assert_eq!(secret["optional"], true, "{name}");
                assert_eq!(secret["defaultMode"], 0o440, "{name}");
                let files = paths(&secret["items"]);
                for file in ["password", "ca.crt", "tls.crt", "tls.key"] {
                    assert!(files.contains(&file), "{name}: {file}");
                    let path = format!("/run/tombola/{store}/{file}");
                    assert!(file == "password" || page.contains(&path), "{path}");
                }
                assert!(!files.contains(&"url"), "{name}: the URL is a variable");
            }
            pods += 1;
        }
        assert_eq!(pods, 3, "{}", rendered.overlay);
    }
}

#[test]
fn services_say_whether_tls_is_spoken_behind_them_and_production_hides_its_api() {
    for rendered in Rendered::all() {
        let container = &rendered.server()["spec"]["containers"][0];
        let variables = rendered.variables(container);
        let value = |name: &str| {
            let found = variables.iter().find(|(own, _)| own == name);
            found.and_then(|(_, value)| value.as_deref())
        };
        let has_tls = value("TOMBOLA_TLS_CERT").is_some();
        let protocol = if has_tls {
            "https"
        } else {
            "kubernetes.io/h2c"
        };
        for name in ["tombola", "tombola-headless"] {
            let port = &rendered.named("Service", name)["spec"]["ports"][0];
            assert_eq!(text(&port["appProtocol"]), protocol, "{name}");
        }
        assert_eq!(has_tls, rendered.overlay == "production");
        let reflection = has_tls.then_some("admin");
        assert_eq!(value("TOMBOLA_REFLECTION"), reflection);
    }
}
