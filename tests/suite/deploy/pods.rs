//! What each pod may do, and how it ends.

use serde_json::Value;

use super::render::{Rendered, list, text};

/// How long calls may go on after the drain delay, and time to settle and to close the store.
const DRAIN_S: u64 = 10;
const CLOSE_S: u64 = 20;

#[test]
fn every_pod_is_restricted() {
    for rendered in Rendered::all() {
        let labels = &rendered.named("Namespace", "tombola")["metadata"]["labels"];
        assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
        for (name, pod) in rendered.pods() {
            let place = format!("{}: {name}", rendered.overlay);
            let spec = &pod["spec"];
            assert_eq!(spec["automountServiceAccountToken"], false, "{place}");
            assert_eq!(spec["enableServiceLinks"], false, "{place}");
            let context = &spec["securityContext"];
            assert_eq!(context["runAsNonRoot"], true, "{place}");
            assert_eq!(
                context["seccompProfile"]["type"], "RuntimeDefault",
                "{place}"
            );
            // The files of a Secret belong to root and to this group.
            assert_eq!(context["fsGroup"], context["runAsGroup"], "{place}");
            let containers = list(&spec["containers"]);
            assert_eq!(containers.len(), 1, "{place}");
            let context = &containers[0]["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{place}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{place}");
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{place}");
            for what in ["requests", "limits"] {
                assert!(
                    containers[0]["resources"][what]["memory"].is_string(),
                    "{place}"
                );
            }
        }
    }
}

#[test]
fn volumes_are_mounted_where_the_settings_say() {
    for rendered in Rendered::all() {
        for (name, pod) in rendered.pods() {
            let container = &pod["spec"]["containers"][0];
            let mounts: Vec<&str> = list(&container["volumeMounts"])
                .iter()
                .map(|mount| text(&mount["mountPath"]))
                .collect();
            for (variable, value) in rendered.variables(container) {
                let Some(path) = value.filter(|value| value.starts_with('/')) else {
                    continue;
                };
                let is_mounted = mounts.iter().any(|mount| path.starts_with(mount));
                assert!(
                    is_mounted,
                    "{}: {name}: {variable}={path}",
                    rendered.overlay
                );
            }
            for mount in list(&container["volumeMounts"]) {
                assert!(
                    has_volume(&rendered, name, pod, &mount["name"]),
                    "{name}: {mount}"
                );
            }
        }
    }
}

/// An audit of the embedded store runs in its pod, beside the service. The image has no other place
/// for temporary files.
#[test]
fn the_pod_of_the_embedded_store_has_room_for_temporary_files() {
    let all = Rendered::all();
    let mut embedded = all.iter().filter(|it| it.overlay == "embedded");
    let pod = embedded.next().unwrap().server();
    let mut mounts = list(&pod["spec"]["containers"][0]["volumeMounts"]).iter();
    let mount = mounts.find(|mount| mount["mountPath"] == "/tmp").unwrap();
    let mut volumes = list(&pod["spec"]["volumes"]).iter();
    let volume = volumes.find(|volume| volume["name"] == mount["name"]);
    assert!(volume.unwrap()["emptyDir"].is_object());
    assert_eq!(mount["readOnly"], Value::Null);
}

/// Whether a pod, or the claims of its StatefulSet, have this volume.
fn has_volume(rendered: &Rendered, maker: &str, pod: &Value, volume: &Value) -> bool {
    let volumes = list(&pod["spec"]["volumes"]);
    let sets = rendered.kind("StatefulSet");
    let sets = sets.filter(|set| set["metadata"]["name"] == maker);
    let claims = sets.flat_map(|set| list(&set["spec"]["volumeClaimTemplates"]));
    volumes.iter().any(|it| it["name"] == *volume)
        || claims
            .into_iter()
            .any(|it| it["metadata"]["name"] == *volume)
}

#[test]
fn a_service_has_the_time_to_end() {
    for rendered in Rendered::all() {
        let spec = &rendered.server()["spec"];
        let variables = rendered.variables(&spec["containers"][0]);
        // The last one of a name counts.
        let delay = variables
            .iter()
            .rev()
            .find(|it| it.0 == "TOMBOLA_DRAIN_DELAY");
        let delay = delay.unwrap().1.as_deref().unwrap().strip_suffix('s');
        let delay: u64 = delay.unwrap().parse().unwrap();
        let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(
            grace >= delay + DRAIN_S + CLOSE_S,
            "{}: {grace} s",
            rendered.overlay
        );
        assert_eq!(delay == 0, rendered.overlay == "embedded");
    }
}

#[test]
fn only_production_is_scaled_and_only_one_pod_is_taken_away_at_once() {
    for rendered in Rendered::all() {
        let has = |kind| rendered.kind(kind).count();
        let (scalers, budgets) = (has("HorizontalPodAutoscaler"), has("PodDisruptionBudget"));
        match rendered.overlay {
            "embedded" => {
                assert_eq!((scalers, budgets, has("Deployment")), (0, 0, 0));
                assert_eq!(
                    rendered.named("StatefulSet", "tombola")["spec"]["replicas"],
                    1
                );
            }
            "trial" => {
                assert_eq!((scalers, budgets), (0, 1));
                assert_eq!(
                    rendered.named("Deployment", "tombola")["spec"]["replicas"],
                    2
                );
            }
            _ => {
                assert_eq!((scalers, budgets), (1, 1));
                let scaler = rendered.named("HorizontalPodAutoscaler", "tombola");
                assert_eq!(scaler["spec"]["minReplicas"], 3);
                // Otherwise every `kubectl apply` would undo what the autoscaler decided.
                let deployment = rendered.named("Deployment", "tombola");
                assert_eq!(deployment["spec"]["replicas"], Value::Null);
            }
        }
        for budget in rendered.kind("PodDisruptionBudget") {
            assert_eq!(budget["spec"]["maxUnavailable"], 1);
        }
    }
}
