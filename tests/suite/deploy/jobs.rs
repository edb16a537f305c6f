//! Jobs have names of their own for each image and for all settings: a job cannot be changed.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::render::{Rendered, copy, replace, text};

const TRIAL: &str = "overlays/trial/kustomization.yaml";

/// The names of a job without and with its hash. It is the name of the ConfigMap with its image.
fn names(rendered: &Rendered, job: &Value) -> (String, String) {
    let name = text(&job["metadata"]["name"]);
    let image = &rendered.named("ConfigMap", name)["data"]["image"];
    assert_eq!(
        *image,
        job["spec"]["template"]["spec"]["containers"][0]["image"]
    );
    assert!(job["spec"]["ttlSecondsAfterFinished"].as_u64() > Some(0));
    let (short, hash) = name.rsplit_once('-').unwrap();
    assert_eq!(hash.len(), 10, "{name}");
    (short.to_owned(), name.to_owned())
}

/// The full names of the jobs, by their names without the hash.
fn jobs(kustomize: &Path) -> BTreeMap<String, String> {
    let rendered = Rendered::of(kustomize, "trial");
    let jobs = rendered.kind("Job").map(|job| names(&rendered, job));
    jobs.collect()
}

/// The jobs whose names differ.
fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    assert_eq!(before.len(), 3);
    let changed = before.iter().filter(|(name, full)| after[*name] != **full);
    changed.map(|(name, _)| name.clone()).collect()
}

#[test]
fn every_job_has_the_name_of_its_configuration() {
    let all = Rendered::all();
    let each = all.iter().map(|rendered| {
        let jobs = rendered.kind("Job").map(|job| names(rendered, job).0);
        jobs.collect::<Vec<_>>()
    });
    let wanted: [&[&str]; 3] = [
        &["tombola-apply"],
        &["tombola-apply", "tombola-init", "tombola-migrate"],
        &["tombola-init", "tombola-migrate"],
    ];
    assert_eq!(each.collect::<Vec<_>>(), wanted);
}

#[test]
fn a_job_has_another_name_if_its_image_or_its_settings_change_and_only_then() {
    let (_directory, kustomize) = copy();
    let before = jobs(&kustomize);
    assert_eq!(changed(&before, &jobs(&kustomize)), [""; 0]);

    replace(
        &kustomize.join("overlays/trial/campaigns.yaml"),
        "stock: 1000",
        "stock: 2000",
    );
    let campaign = jobs(&kustomize);
    assert_eq!(changed(&before, &campaign), ["tombola-apply"]);

    replace(
        &kustomize.join(TRIAL),
        "TOMBOLA_DURABILITY=local",
        "TOMBOLA_DURABILITY=fast",
    );
    let level = jobs(&kustomize);
    assert_eq!(changed(&campaign, &level), ["tombola-init"]);

    replace(&kustomize.join(TRIAL), "newTag: 0.1.0", "newTag: 0.2.0");
    let image = jobs(&kustomize);
    let all = ["tombola-apply", "tombola-init", "tombola-migrate"];
    assert_eq!(changed(&level, &image), all);
}
