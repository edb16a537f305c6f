//! An issuer of tokens: its keys, the tokens that it signs, and the server behind the URL of its
//! key set.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

/// A key for tests, since ring makes no RSA keys. Nothing else has ever used it.
const RSA: &[u8] = include_bytes!("rsa.pem");

/// The `iss` of all tokens.
pub const ISSUER: &str = "https://issuer.example";

/// A key that signs tokens.
pub enum SigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    pub fn rsa() -> Self {
        let key = PrivatePkcs8KeyDer::from_pem_slice(RSA).unwrap();
        Self::Rsa(RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap())
    }

    pub fn p256() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    pub fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    /// The key in a key set.
    pub fn public(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(key) => {
                let public: rsa::PublicKeyComponents<Vec<u8>> = key.public().into();
                let (n, e) = (base64(public.n), base64(public.e));
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": n, "e": e})
            }
            Self::P256(key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y})
            }
            Self::Ed25519(key) => {
                let x = base64(key.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
            }
        }
    }

    /// A token that this key signs.
    pub fn token(&self, kid: &str, claims: &Value) -> String {
        let (alg, random) = (self.algorithm(), SystemRandom::new());
        let header = json!({"alg": alg, "typ": "JWT", "kid": kid});
        let signed = format!(
            "{}.{}",
            base64(header.to_string()),
            base64(claims.to_string())
        );
        let bytes = signed.as_bytes();
        let signature = match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature)
                    .unwrap();
                base64(signature)
            }
            Self::P256(key) => base64(key.sign(&random, bytes).unwrap()),
            Self::Ed25519(key) => base64(key.sign(bytes)),
        };
        format!("{signed}.{signature}")
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }
}

pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The claims of a good token that ends after this many seconds.
pub fn claims(subject: &str, seconds: i64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end = i64::try_from(now.as_secs()).unwrap() + seconds;
    json!({"iss": ISSUER, "aud": "tombola", "sub": subject, "exp": end})
}

/// A key set of these keys.
pub fn key_set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// A server with a key set.
pub struct KeyServer {
    pub address: SocketAddr,
    /// The response; none: it closes the connection.
    response: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
    is_held: Arc<AtomicBool>,
    heads: Arc<Mutex<String>>,
}

impl KeyServer {
    pub fn new(keys: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            response: Arc::default(),
            asked: Arc::default(),
            is_held: Arc::default(),
            heads: Arc::default(),
        };
        server.has(keys);
        let (response, asked) = (Arc::clone(&server.response), Arc::clone(&server.asked));
        let heads = Arc::clone(&server.heads);
        let is_held = Arc::clone(&server.is_held);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                let head: Vec<String> = head.collect();
                heads.lock().unwrap().push_str(&head.join("\n"));
                asked.fetch_add(1, Ordering::SeqCst);
                while is_held.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let response = response.lock().unwrap().clone().unwrap_or_default();
                stream.write_all(response.as_bytes()).ok();
            }
        });
        server
    }

    /// Changes the key set.
    pub fn has(&self, keys: &str) {
        let length = keys.len();
        self.answers(&format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{keys}"
        ));
    }

    /// Changes the whole response.
    pub fn answers(&self, response: &str) {
        *self.response.lock().unwrap() = Some(response.into());
    }

    /// Keeps responses back, or lets them go.
    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The heads of all requests.
    pub fn heads(&self) -> String {
        self.heads.lock().unwrap().clone()
    }
}
