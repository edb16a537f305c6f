//! Compiles `proto/` without protoc, keeps the descriptors for reflection and the JSON mapping,
//! generates the guard of the services, and computes the build id.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use sha2::{Digest as _, Sha256};

const PROTOS: [&str; 8] = [
    "tombola/v1/common.proto",
    "tombola/v1/campaign.proto",
    "tombola/v1/lottery_service.proto",
    "tombola/v1/campaign_service.proto",
    "tombola/v1/envelope.proto",
    "tombola/v1/envelope_service.proto",
    "tombola/v1/ledger_service.proto",
    "tombola/v1/admin_service.proto",
];

/// All that the library and the server are made of.
const SOURCES: [&str; 5] = ["Cargo.lock", "Cargo.toml", "build.rs", "proto", "src"];
/// Bytes of the digest in a build id.
const BUILD_ID_BYTES: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out_dir.join("tombola_v1.binpb"),
        descriptors.encode_to_vec(),
    )?;
    fs::write(out_dir.join("guard.rs"), guard(&descriptors)?)?;
    tonic_prost_build::configure()
        .btree_map(".")
        .compile_fds(descriptors)?;
    println!("cargo::rustc-env=TOMBOLA_BUILD_ID={}", build_id()?);
    Ok(())
}

/// A method of a service.
struct Method {
    service: String,
    name: String,
    request: String,
    response: String,
    is_stream: bool,
}

/// Generates the enum `Rpc` of all methods, and for each service an implementation for `Guarded`
/// that admits every request before the service gets it. `src/grpc/access/guard.rs` includes it. A
/// new method is a new variant, which the table of permissions must name, and its request type must
/// say what it is about; otherwise nothing compiles.
fn guard(descriptors: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let methods = methods(descriptors);
    let mut code = String::from(
        "/// Every method of `tombola.v1`.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\npub enum Rpc {\n",
    );
    let mut names = BTreeSet::new();
    for method in &methods {
        let Method { service, name, .. } = method;
        if !names.insert(name) {
            return Err(format!("two services have a method {name}: rename one").into());
        }
        writeln!(code, "/// `{service}.{name}`.\n{name},")?;
    }
    let count = methods.len();
    writeln!(code, "}}\nimpl Rpc {{\n/// All methods.")?;
    writeln!(code, "pub const ALL: [Self; {count}] = [")?;
    for Method { name, .. } in &methods {
        writeln!(code, "Self::{name},")?;
    }
    writeln!(
        code,
        "];\n/// The path of the method in a request.\n\
         pub const fn path(self) -> &'static str {{\nmatch self {{"
    )?;
    for Method { service, name, .. } in &methods {
        writeln!(code, "Self::{name} => \"/tombola.v1.{service}/{name}\",")?;
    }
    code.push_str("}\n}\n}\n");
    for service in methods.chunk_by(|a, b| a.service == b.service) {
        code.push_str(&guarded(service)?);
    }
    Ok(code)
}

/// The implementation of one service.
fn guarded(methods: &[Method]) -> Result<String, Box<dyn Error>> {
    let service = methods.first().map_or("", |method| &method.service);
    let module = format!("crate::proto::{}_server", snake(service));
    let mut code = format!("impl<S: {module}::{service}> {module}::{service} for Guarded<S> {{\n");
    for method in methods {
        let (name, request) = (&method.name, &method.request);
        let (function, mut response) = (snake(name), format!("crate::proto::{}", method.response));
        if method.is_stream {
            writeln!(code, "type {name}Stream = S::{name}Stream;")?;
            response = format!("Self::{name}Stream");
        }
        writeln!(
            code,
            "fn {function}<'life0, 'async_trait>(\n\
             &'life0 self, request: tonic::Request<crate::proto::{request}>,\n\
             ) -> Answered<'async_trait, {response}>\n\
             where 'life0: 'async_trait, Self: 'async_trait {{\n\
             match self.admit(Rpc::{name}, request) {{\n\
             Ok(request) => self.service.{function}(request),\n\
             Err(later) => Box::pin(async move {{\n\
             self.service.{function}(later.await?).await\n}}),\n}}\n}}"
        )?;
    }
    code.push_str("}\n");
    Ok(code)
}

fn methods(descriptors: &FileDescriptorSet) -> Vec<Method> {
    let ours = descriptors
        .file
        .iter()
        .filter(|file| file.package() == "tombola.v1");
    let mut methods = Vec::new();
    for service in ours.flat_map(|file| &file.service) {
        let name_of = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
        methods.extend(service.method.iter().map(|method| Method {
            service: service.name().into(),
            name: method.name().into(),
            request: name_of(method.input_type()),
            response: name_of(method.output_type()),
            is_stream: method.server_streaming(),
        }));
    }
    methods
}

/// `GetDraw` as `get_draw`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Digests the sources. It needs neither git nor its history, and says the same for the same
/// sources wherever they lie; a commit would say nothing of changes that are not committed.
fn build_id() -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        list(Path::new(source), &mut files)?;
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let name = file.to_str().ok_or("a source's name is not UTF-8")?;
        digest.update(name.replace('\\', "/"));
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
    let mut id = String::new();
    for byte in &digest.finalize()[..BUILD_ID_BYTES] {
        write!(id, "{byte:02x}")?;
    }
    Ok(id)
}

/// The files at and below a path.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}
