//! The manifests as a whole: they are valid, complete, and name only what exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::Value;

use super::render::{Rendered, copy, list, replace, selects, text};
use crate::process::{Ended, Start, project, tombola};

/// The versions of Kubernetes whose schemas must be met.
pub(super) const VERSIONS: [&str; 3] = ["1.33", "1.35", "1.37"];
/// Secrets that an operator makes, as docs/kubernetes.md says.
const SECRETS: [&str; 5] = [
    "tombola-master-key",
    "tombola-tls",
    "tombola-redis",
    "tombola-postgres",
    "tombola-postgres-owner",
];

/// Compares manifests with the schemas of a version.
pub(super) fn validate(version: &str, manifests: &[&str]) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let mut validate = Command::new(project(".venv/bin/kubernetes-validate"));
    validate.args(["--strict", "--kubernetes-version", version]);
    for (number, manifests) in (0..).zip(manifests) {
        let file = directory.path().join(format!("{number}.yaml"));
        fs::write(&file, manifests).unwrap();
        validate.arg(file);
    }
    Ended::of(&mut validate)
}

#[test]
fn every_manifest_is_valid_in_current_versions_of_kubernetes() {
    let rendered = Rendered::all();
    let manifests: Vec<&str> = rendered.iter().map(|it| it.text.as_str()).collect();
    for version in VERSIONS {
        validate(version, &manifests).well();
    }
    let wrong = manifests[0].replace("readOnlyRootFilesystem", "readonlyRootFilesystem");
    assert_ne!(validate(VERSIONS[0], &[&wrong]).code, Some(0));
}

#[test]
fn every_name_leads_to_a_resource_of_the_same_namespace() {
    for rendered in Rendered::all() {
        for resource in &rendered.resources {
            let namespace = &resource["metadata"]["namespace"];
            let is_within = *namespace == "tombola" || resource["kind"] == "Namespace";
            assert!(is_within, "{resource}");
        }
        rendered.named("Namespace", "tombola");
        for (_, pod) in rendered.pods() {
            if let Some(account) = pod["spec"]["serviceAccountName"].as_str() {
                rendered.named("ServiceAccount", account);
            }
            let mut maps = Vec::new();
            let mut secrets = Vec::new();
            collect(pod, &mut maps, &mut secrets);
            for map in maps {
                rendered.named("ConfigMap", map);
            }
            for secret in secrets {
                let names_it = |it: &Value| it["metadata"]["name"] == secret;
                let is_made = rendered.kind("Secret").any(names_it);
                assert!(is_made || SECRETS.contains(&secret), "{secret}");
            }
        }
    }
    let page = fs::read_to_string(project("docs/kubernetes.md")).unwrap();
    for secret in SECRETS {
        assert!(page.contains(secret), "docs/kubernetes.md has no {secret}");
    }
}

/// The names of ConfigMaps and Secrets anywhere in a value.
fn collect<'v>(value: &'v Value, maps: &mut Vec<&'v str>, secrets: &mut Vec<&'v str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "configMapRef" | "configMapKeyRef" | "configMap" => {
                        maps.push(text(&value["name"]));
                    }
                    "secretRef" | "secretKeyRef" => secrets.push(text(&value["name"])),
                    "secret" => secrets.push(text(&value["secretName"])),
                    _ => collect(value, maps, secrets),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|it| collect(it, maps, secrets)),
        _ => {}
    }
}

/// What `--help` says of a subcommand: its options and their variables.
fn help(subcommand: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let help = Ended::of(&mut tombola([subcommand, "--help"])).well();
    let words = |prefix: &str| {
        let words = help.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
        let words = words.filter(|word| word.starts_with(prefix));
        words.map(str::to_owned).collect()
    };
    (words("--"), words("TOMBOLA_"))
}

/// Asserts that the program has these options and variables.
pub(super) fn known(place: &str, arguments: &[String], variables: &[String]) {
    let (options, names) = help(&arguments[0]);
    for argument in &arguments[1..] {
        let option = argument.split('=').next().unwrap();
        assert!(options.contains(option), "{place}: {argument}");
    }
    // The image of a job is a key of its ConfigMap.
    for variable in variables.iter().filter(|name| *name != "image") {
        assert!(names.contains(variable), "{place}: {variable}");
    }
}

pub(super) fn strings(values: &Value) -> Vec<String> {
    let texts = list(values).iter().map(text);
    texts.map(str::to_owned).collect()
}

#[test]
fn every_option_and_variable_is_one_of_the_program() {
    let mut ran = BTreeMap::<String, u32>::new();
    for rendered in Rendered::all() {
        for (name, pod) in rendered.pods() {
            let container = &pod["spec"]["containers"][0];
            if !text(&container["image"]).contains("/tombola:") {
                continue;
            }
            let arguments = strings(&container["args"]);
            let variables = rendered.variables(container);
            let variables: Vec<String> = variables.into_iter().map(|(name, _)| name).collect();
            known(
                &format!("{}: {name}", rendered.overlay),
                &arguments,
                &variables,
            );
            *ran.entry(arguments[0].clone()).or_default() += 1;
        }
    }
    let ran: Vec<(&str, u32)> = ran
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    assert_eq!(
        ran,
        [("apply", 2), ("init", 2), ("migrate", 2), ("serve", 3)]
    );

    let compose = fs::read_to_string(project("deploy/compose/compose.yaml")).unwrap();
    let compose: Value = serde_saphyr::from_str(&compose).unwrap();
    for name in ["tombola", "migrate"] {
        let service = &compose["services"][name];
        let variables = service["environment"].as_object().unwrap();
        let variables: Vec<String> = variables.keys().cloned().collect();
        known(name, &strings(&service["command"]), &variables);
    }
    let (_, names) = help("serve");
    for (name, _) in dockerfile_variables() {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn traces_are_switched_on_by_the_lines_that_are_there_for_it() {
    let (_directory, kustomize) = copy();
    let file = kustomize.join("overlays/production/kustomization.yaml");
    let before = Rendered::of(&kustomize, "production");
    for line in [
        "- ../../components/traces",
        "- TOMBOLA_OTLP_ENDPOINT=http://collector.monitoring:4317",
    ] {
        replace(&file, &format!("# {line}"), line);
    }
    let rendered = Rendered::of(&kustomize, "production");
    validate(VERSIONS[0], &[&rendered.text]).well();
    let pod = rendered.server();
    let variables = rendered.variables(&pod["spec"]["containers"][0]);
    let variables: BTreeMap<_, _> = variables.into_iter().collect();
    let endpoint = variables["TOMBOLA_OTLP_ENDPOINT"].as_ref().unwrap();
    let (_, names) = help("serve");
    assert!(names.contains("TOMBOLA_OTLP_ENDPOINT"));
    // Its port and its namespace are those that the policy lets services reach.
    let policy = rendered.named("NetworkPolicy", "tombola-to-collector");
    let labels = &pod["metadata"]["labels"];
    assert!(selects(&policy["spec"]["podSelector"], labels));
    let way = &policy["spec"]["egress"][0];
    assert_eq!(way["ports"][0]["port"], port_of(endpoint));
    let namespace = &way["to"][0]["namespaceSelector"]["matchLabels"];
    let namespace = text(&namespace["kubernetes.io/metadata.name"]);
    assert!(endpoint.contains(&format!(".{namespace}:")), "{endpoint}");
    // Variables that others refer to come before them.
    let container = &pod["spec"]["containers"][0];
    let named = list(&container["env"]).iter().map(|it| text(&it["name"]));
    let place = |name| named.clone().position(|it| it == name).unwrap();
    let attributes = variables["OTEL_RESOURCE_ATTRIBUTES"].as_ref().unwrap();
    for name in ["POD_NAME", "POD_NAMESPACE"] {
        assert!(attributes.contains(&format!("$({name})")), "{attributes}");
        assert!(place(name) < place("OTEL_RESOURCE_ATTRIBUTES"));
    }
    assert_eq!(before.resources.len() + 1, rendered.resources.len());
}

/// The variables that the Dockerfile sets.
fn dockerfile_variables() -> Vec<(String, String)> {
    let text = fs::read_to_string(project("deploy/image/Dockerfile")).unwrap();
    let words = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    let ours = words.filter(|(name, _)| name.starts_with("TOMBOLA_"));
    let found: Vec<_> = ours
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert!(!found.is_empty());
    found
}

/// The port of an address.
fn port_of(address: &str) -> u64 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn ports_are_those_that_the_service_listens_on() {
    for rendered in Rendered::all() {
        let pod = rendered.server();
        let container = &pod["spec"]["containers"][0];
        let variables: BTreeMap<_, _> = rendered.variables(container).into_iter().collect();
        let port = |name: &str| port_of(variables[name].as_ref().unwrap());
        let (grpc, admin) = (port("TOMBOLA_LISTEN"), port("TOMBOLA_ADMIN"));
        let ports = |value: &Value| -> BTreeMap<String, u64> {
            let ports = list(value).iter();
            let ports = ports.map(|it| (text(&it["name"]).into(), it["containerPort"].as_u64()));
            ports.map(|(name, port)| (name, port.unwrap())).collect()
        };
        let wanted = BTreeMap::from([("grpc".into(), grpc), ("admin".into(), admin)]);
        assert_eq!(ports(&container["ports"]), wanted);
        for service in ["tombola", "tombola-headless"] {
            let ports = list(&rendered.named("Service", service)["spec"]["ports"]);
            assert_eq!(ports.len(), 1, "the admin port is not for callers");
            assert_eq!(
                (&ports[0]["port"], text(&ports[0]["targetPort"])),
                (&grpc.into(), "grpc")
            );
        }
        let annotation = &pod["metadata"]["annotations"]["prometheus.io/port"];
        assert_eq!(text(annotation), admin.to_string());
        let policy = &rendered.named("NetworkPolicy", "tombola-server")["spec"]["ingress"];
        assert_eq!(policy[0]["ports"][0]["port"], grpc);
        assert_eq!(policy[1]["ports"][0]["port"], admin);
        let exposed = format!("EXPOSE {grpc} {admin}\n");
        let dockerfile = fs::read_to_string(project("deploy/image/Dockerfile")).unwrap();
        assert!(dockerfile.contains(&exposed), "no {exposed}");
    }
    let prometheus = fs::read_to_string(project("deploy/compose/prometheus.yaml")).unwrap();
    assert!(prometheus.contains("[tombola:9090]"));
}

#[test]
fn every_path_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).with("--admin 127.0.0.1:0").serve();
    let admin = server.admin();
    for rendered in Rendered::all() {
        let pod = rendered.server();
        let container = &pod["spec"]["containers"][0];
        for probe in ["livenessProbe", "readinessProbe"] {
            let probe = &container[probe]["httpGet"];
            assert_eq!(text(&probe["port"]), "admin");
            admin.becomes(text(&probe["path"]), 200);
        }
        let metrics = text(&pod["metadata"]["annotations"]["prometheus.io/path"]);
        assert_eq!(admin.get(metrics).0, 200);
    }
}

#[test]
fn selectors_choose_the_pods_that_they_are_for() {
    for rendered in Rendered::all() {
        let chosen = |selector: &Value| -> Vec<String> {
            let pods = rendered.pods().into_iter();
            let chosen = pods.filter(|(_, pod)| selects(selector, &pod["metadata"]["labels"]));
            // Names of jobs end with a hash.
            let names = chosen.map(|(name, _)| name.split('-').take(2).collect::<Vec<_>>());
            names.map(|parts| parts.join("-")).collect()
        };
        for resource in &rendered.resources {
            let (kind, name) = (text(&resource["kind"]), text(&resource["metadata"]["name"]));
            let own = match (kind, name) {
                ("Service", "redis" | "postgres") | ("NetworkPolicy", "redis" | "postgres") => name,
                ("NetworkPolicy", "tombola-apply") => "tombola-apply",
                _ => "tombola",
            };
            match kind {
                "Service" => {
                    let selector =
                        serde_json::json!({ "matchLabels": resource["spec"]["selector"] });
                    assert_eq!(chosen(&selector), [own], "{kind} {name}");
                }
                "Deployment" | "StatefulSet" => {
                    assert_eq!(
                        chosen(&resource["spec"]["selector"]),
                        [name],
                        "{kind} {name}"
                    );
                }
                "PodDisruptionBudget" => {
                    assert_eq!(
                        chosen(&resource["spec"]["selector"]),
                        [own],
                        "{kind} {name}"
                    );
                }
                "NetworkPolicy" => {
                    let pods = chosen(&resource["spec"]["podSelector"]);
                    assert!(pods.contains(&own.to_owned()), "{name}: {pods:?}");
                    let ours = rendered.pods().len() - list_of_others(&rendered);
                    let wanted = match name {
                        "tombola" => ours,
                        "tombola-to-redis" | "tombola-to-postgres" => 2,
                        _ => 1,
                    };
                    assert_eq!(pods.len(), wanted, "{name}: {pods:?}");
                }
                _ => {}
            }
        }
    }
}

/// How many pods are of Redis and PostgreSQL.
fn list_of_others(rendered: &Rendered) -> usize {
    let names = rendered.pods().into_iter().map(|(name, _)| name);
    names.filter(|name| !name.starts_with("tombola")).count()
}
