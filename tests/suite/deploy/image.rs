//! The files of the image, and the program run from them as Kubernetes runs it: with nothing else,
//! as another user, on a root that cannot be written.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use super::render::{Rendered, text};
use crate::{
    faults::load,
    process::{Ended, Server, alone, project, tombola},
};

/// The user of the image.
const USER: u32 = 65_532;

/// Puts the image together in this directory.
fn assemble(root: &Path) {
    let mut assemble = Command::new(project("deploy/image/assemble"));
    assemble.arg(tombola([""; 0]).get_program()).arg(root);
    Ended::of(&mut assemble).well();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// All files below a directory, without their directories.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn the_image_has_the_program_and_what_it_needs_and_is_the_same_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    assemble(&one);
    assemble(&other);
    let layer = |root: &Path| {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--numeric-owner", "--create", "--directory"]);
        tar.arg(root).arg(".").output().unwrap().stdout
    };
    assert!(
        layer(&one) == layer(&other),
        "the same input makes another layer"
    );

    let mut found: Vec<String> = Vec::new();
    for file in files(&one) {
        let name = file
            .strip_prefix(&one)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        // Libraries, whose directory depends on the machine.
        if !name.contains(".so.") {
            found.push(name);
        }
    }
    found.sort();
    let wanted = [
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "etc/ssl/certs/ca-certificates.crt",
        "usr/bin/tombola",
    ];
    assert_eq!(found, wanted);
    assert!(files(&one).len() <= wanted.len() + 5, "{:?}", files(&one));
}

/// A file that the program reads or a directory that it writes, as the kubelet mounts it: of the
/// group of the pod.
fn for_the_group(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    if is_root() {
        chown(path, Some(0), Some(USER)).unwrap();
    }
}

/// Runs the service from the image, with the settings of the overlay `embedded` but its addresses.
fn serve_from(root: &Path, data: &Path) -> Server {
    const RUN: &str = r#"
        mount --bind "$1" "$1" && mount --bind "$2" "$1/var/lib/tombola" &&
        mount -o remount,bind,ro "$1" && user=$3 && root=$1 && shift 3 &&
        exec chroot $user "$root" "$@""#;
    let overlay = Rendered::of(&project("deploy/kustomize"), "embedded");
    let container = &overlay.server()["spec"]["containers"][0];
    let mut run = alone("unshare");
    run.arg("--mount");
    let user = match is_root() {
        true => format!("--userspec={USER}:{USER}"),
        false => {
            run.arg("--map-root-user");
            "--userspec=0:0".to_owned()
        }
    };
    run.args(["sh", "-c", RUN, "sh"])
        .arg(root)
        .arg(data)
        .arg(user);
    run.args(["/usr/bin/tombola", text(&container["args"][0])]);
    run.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    for (name, value) in overlay.variables(container) {
        let value = match name.as_str() {
            "TOMBOLA_LISTEN" | "TOMBOLA_ADMIN" => "127.0.0.1:0".to_owned(),
            "TOMBOLA_LOG_FORMAT" => continue, // the tests read text
            _ => value.unwrap(),
        };
        run.env(name, value);
    }
    Server::started_by(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_runs_from_the_image_as_another_user_on_a_root_that_is_read_only() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let [root, data] = ["root", "data"].map(|name| directory.path().join(name));
    assemble(&root);
    let key = root.join("run/tombola/key/master.key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    fs::write(&key, "07".repeat(32)).unwrap();
    for_the_group(&key, 0o440);
    fs::create_dir(&data).unwrap();
    for_the_group(&data, 0o2770);
    let before = files(&root);

    let mut server = serve_from(&root, &data);
    server.admin().becomes("/readyz", 200);
    load::apply_now(&server).await;
    server.run(&["draw", "cards", "u-1"]).well();
    for overlay in ["embedded", "trial"] {
        let campaigns = format!("deploy/kustomize/overlays/{overlay}/campaigns.yaml");
        let campaigns = project(&campaigns);
        let apply = ["apply", "--if-changed", campaigns.to_str().unwrap()];
        server.run(&apply).well();
    }
    server.run(&["draw", "my-wheel", "u-1"]).well();
    server.run(&["stats", "cards"]).well();
    server.run(&["draws", "--user", "u-1"]).well();
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    // The overlay says that the network protects the service.
    let warnings = said.lines().filter(|line| line.contains("WARN"));
    let others = warnings.filter(|line| !line.contains("there is no access file"));
    assert_eq!(others.count(), 0, "{said}");
    assert_eq!(files(&root), before);
    let database = fs::metadata(data.join("tombola.sqlite3")).unwrap();
    assert!(!is_root() || database.uid() == USER);
}

/// What the build of the image takes from the project.
fn context() -> Vec<String> {
    let ignored = fs::read_to_string(project("deploy/image/Dockerfile.dockerignore")).unwrap();
    let taken = ignored.lines().filter_map(|line| line.strip_prefix('!'));
    taken.map(str::to_owned).collect()
}

#[test]
fn the_build_of_the_image_has_all_that_the_program_is_made_of() {
    let context = context();
    let is_taken = |path: &Path| {
        let path = path.strip_prefix(project("")).unwrap();
        context.iter().any(|taken| path.starts_with(taken))
    };
    for path in &context {
        assert!(project(path).exists(), "{path}");
    }
    let mut included = 0;
    for source in files(&project("src")) {
        assert!(is_taken(&source), "{}", source.display());
        let text = fs::read_to_string(&source).unwrap();
        for rest in text.split("include_str!(\"").skip(1) {
            let path = rest.split('"').next().unwrap();
            let path = source.parent().unwrap().join(path).canonicalize().unwrap();
            assert!(is_taken(&path), "{}: {}", source.display(), path.display());
            included += 1;
        }
    }
    assert!(included > 0);
    for name in [
        "Cargo.lock",
        "Cargo.toml",
        "build.rs",
        "proto",
        "bench",
        "deploy/build",
    ] {
        assert!(is_taken(&project(name)), "{name}");
    }
    let dockerfile = fs::read_to_string(project("deploy/image/Dockerfile")).unwrap();
    assert!(dockerfile.contains(&format!("USER {USER}:{USER}\n")));
    let assemble = fs::read_to_string(project("deploy/image/assemble")).unwrap();
    assert!(assemble.contains(&format!("user={USER}\n")));
}
