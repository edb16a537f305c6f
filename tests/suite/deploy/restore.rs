//! The pod that restores a backup into the volume of the embedded store.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::{
    manifests::{VERSIONS, known, strings, validate},
    render::{Rendered, list, text},
};
use crate::process::{Ended, NOW, Start, project, tombola};

fn pod() -> (String, Value) {
    let file = project("deploy/kustomize/overlays/embedded/restore.yaml");
    let yaml = fs::read_to_string(file).unwrap();
    let pod = serde_saphyr::from_str(&yaml).unwrap();
    (yaml, pod)
}

#[test]
fn the_pod_that_restores_is_valid_and_takes_the_volume_of_the_service() {
    let (yaml, pod) = pod();
    for version in VERSIONS {
        validate(version, &[&yaml]).well();
    }
    let rendered = Rendered::of(&project("deploy/kustomize"), "embedded");
    let set = rendered.named("StatefulSet", "tombola");
    let claim = &set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"];
    let volume = &pod["spec"]["volumes"][0]["persistentVolumeClaim"];
    let first = format!("{}-tombola-0", text(claim));
    assert_eq!(text(&volume["claimName"]), first);
    // The same user, who may write the volume, and the same key.
    let server = &rendered.server()["spec"];
    assert_eq!(pod["spec"]["securityContext"], server["securityContext"]);
    let container = &pod["spec"]["containers"][0];
    let variables = rendered.variables(container);
    let served = rendered.variables(&server["containers"][0]);
    for variable in &variables {
        assert!(served.contains(variable), "{variable:?}");
    }
    let names: Vec<String> = variables.into_iter().map(|(name, _)| name).collect();
    let arguments = strings(&container["args"]);
    let options: Vec<String> = arguments
        .iter()
        .filter(|word| !word.starts_with('/'))
        .cloned()
        .collect();
    known("restore", &options, &names);
    let restricted = list(&pod["spec"]["initContainers"])
        .iter()
        .chain([container]);
    for container in restricted {
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(
            container["securityContext"]["capabilities"]["drop"][0],
            "ALL"
        );
    }
}

/// Runs what the pod runs, with its directories elsewhere.
fn run(pod: &Value, volume: &Path, backup: &Path) -> Ended {
    let here = |word: &str| {
        let word = word.replace("/var/lib/tombola", &volume.display().to_string());
        word.replace("/backup/", &format!("{}/", backup.display()))
    };
    let receive = strings(&pod["spec"]["initContainers"][0]["command"]);
    let words: Vec<String> = receive.iter().map(|word| here(word)).collect();
    Ended::of(Command::new(&words[0]).args(&words[1..])).well();
    let container = &pod["spec"]["containers"][0];
    let mut restore = tombola(strings(&container["args"]).iter().map(|word| here(word)));
    restore.env("TOMBOLA_DATA", volume);
    restore.env("TOMBOLA_CLOCK_START", NOW); // the clock of the server that has made the store
    restore.env("TOMBOLA_MASTER_KEY", volume.join("master.key"));
    Ended::of(&mut restore)
}

#[test]
fn what_the_pod_runs_restores_a_backup_and_keeps_the_store_of_before() {
    let (_, pod) = pod();
    let (volume, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let serve = || Start::on(volume.path()).serve();
    let campaign = project("deploy/kustomize/overlays/trial/campaigns.yaml");
    let campaign = campaign.display().to_string();
    let mut server = serve();
    server.run(&["apply", &campaign]).well();
    let file = backup.path().join("store.backup").display().to_string();
    server.run(&["backup", &file]).well();
    server
        .run(&["draw", "my-wheel", "u", "--request-id", "lost"])
        .well();
    server.kill();
    fs::write(backup.path().join("complete"), "").unwrap();

    run(&pod, volume.path(), backup.path()).well();
    let server = serve();
    server.run(&["campaign", "my-wheel"]).well();
    server
        .run(&["get-draw", "my-wheel", "u", "lost"])
        .badly(1, &["lost"]);
    let names = fs::read_dir(volume.path()).unwrap();
    let mut names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.starts_with("before-")));
}
