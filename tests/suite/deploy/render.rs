//! Manifests as kustomize renders them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Ended, project};

/// The overlays, each an installation of its own.
pub(super) const OVERLAYS: [&str; 3] = ["embedded", "trial", "production"];

/// The manifests of an overlay.
pub(super) struct Rendered {
    pub(super) overlay: &'static str,
    pub(super) text: String,
    pub(super) resources: Vec<Value>,
}

impl Rendered {
    /// Renders all overlays.
    pub(super) fn all() -> Vec<Self> {
        let from = project("deploy/kustomize");
        OVERLAYS.map(|overlay| Self::of(&from, overlay)).into()
    }

    /// Renders an overlay of a copy of the directory.
    pub(super) fn of(kustomize: &Path, overlay: &'static str) -> Self {
        let mut build = Command::new(project("tests/servers/kustomize"));
        build
            .arg("build")
            .arg(kustomize.join("overlays").join(overlay));
        let text = Ended::of(&mut build).well();
        let resources = serde_saphyr::from_multiple(&text).unwrap();
        Self {
            overlay,
            text,
            resources,
        }
    }

    /// All resources of a kind.
    pub(super) fn kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let wanted = move |resource: &&Value| resource["kind"] == kind;
        self.resources.iter().filter(wanted)
    }

    /// The resource with this kind and name.
    pub(super) fn named(&self, kind: &str, name: &str) -> &Value {
        let found = self.kind(kind).find(|it| it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{}: no {kind} {name}", self.overlay))
    }

    /// The templates of all pods, with the name of what makes them.
    pub(super) fn pods(&self) -> Vec<(&str, &Value)> {
        let makers = self.resources.iter().filter_map(|resource| {
            let template = &resource["spec"]["template"];
            template
                .is_object()
                .then_some((text(&resource["metadata"]["name"]), template))
        });
        makers.collect()
    }

    /// The template of the pods of the service.
    pub(super) fn server(&self) -> &Value {
        let pods = self.pods();
        let server = pods.into_iter().find(|(name, _)| *name == "tombola");
        server.unwrap().1
    }

    /// The variables of a container that the manifests themselves have values for.
    pub(super) fn variables(&self, container: &Value) -> Vec<(String, Option<String>)> {
        let mut variables = Vec::new();
        for source in list(&container["envFrom"]) {
            let map = self.named("ConfigMap", text(&source["configMapRef"]["name"]));
            for (name, value) in map["data"].as_object().unwrap() {
                variables.push((name.clone(), value.as_str().map(str::to_owned)));
            }
        }
        for variable in list(&container["env"]) {
            let value = variable["value"].as_str().map(str::to_owned);
            variables.push((text(&variable["name"]).to_owned(), value));
        }
        variables
    }
}

/// A copy of `deploy/kustomize` that a test may change.
pub(super) fn copy() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(project("deploy/kustomize"));
    Ended::of(copy.arg(directory.path())).well();
    let path = directory.path().join("kustomize");
    (directory, path)
}

/// Replaces a text, which must be there, in a file.
pub(super) fn replace(file: &Path, before: &str, after: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(before), "{}: no {before}", file.display());
    fs::write(file, text.replace(before, after)).unwrap();
}

/// A value that must be a text.
#[track_caller]
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// The elements of a list that may be absent.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether labels have all that a selector wants.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object();
    let has_labels = wanted.is_none_or(|wanted| wanted.iter().all(|(key, it)| labels[key] == *it));
    let has_values = list(&selector["matchExpressions"])
        .iter()
        .all(|expression| {
            assert_eq!(expression["operator"], "In");
            list(&expression["values"]).contains(&labels[text(&expression["key"])])
        });
    has_labels && has_values
}
