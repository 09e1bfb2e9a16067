//! Objects in an S3-compatible store: moto's server, as it comes from PyPI.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use failsketch_tests::folder::Folder;
use failsketch_tests::skip::{is_installed, skipped};
use server::config::Config;
use server::store::model::{NewObject, Owner};
use server::store::objects::s3::S3Objects;
use server::store::objects::{ObjectError, Objects as _};

const BUCKET: &str = "failsketch";
const WHO: &str = "Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
                   SignedHeaders=host, Signature=none";

/// A server that ends with its owner.
struct Moto {
    server: Child,
    port: u16,
}

impl Moto {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        drop(listener);
        let server = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed");
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "moto_server does not start"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let moto = Self { server, port };
        moto.request("PUT", &format!("/{BUCKET}"), b"");
        moto
    }

    /// A request past our own code: moto wants to be told who one is, and believes it.
    fn request(&self, method: &str, path: &str, content: &[u8]) -> String {
        use std::io::{Read as _, Write as _};
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        let length = content.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}\r\n{WHO}\r\n\r\n",
            self.port
        );
        stream
            .write_all(&[head.as_bytes(), content].concat())
            .expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains(" 200 "), "{method} {path}: {answer}");
        answer
    }

    async fn open(&self, cache: &Folder) -> S3Objects {
        let settings = [
            ("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        let opened = S3Objects::open(&format!("s3://{BUCKET}"), settings, cache.path()).await;
        opened.expect("a bucket opens")
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[tokio::test]
async fn objects_are_there_for_other_servers() {
    if !is_installed("moto_server") {
        return skipped("moto_server is not installed (pip install 'moto[server]')");
    }
    let moto = Moto::start();
    let (here, there) = (Folder::new("s3-here"), Folder::new("s3-there"));
    let (one, other) = (moto.open(&here).await, moto.open(&there).await);
    // Small ones are sent at once, large ones in parts.
    let large: Vec<u8> = (0..30_000_000_u32).map(|number| (number / 1000) as u8).collect();
    for content in [b"abc".to_vec(), Vec::new(), large] {
        let key = one.put(content.clone().into()).await.expect("put");
        assert_eq!(one.put(content.clone().into()).await.expect("put again"), key);
        assert!(other.exists(&key).await.expect("asked"));
        let path = other.get(&key).await.expect("fetched");
        assert!(path.starts_with(there.path()));
        assert!(
            fs::read(&path).expect("read") == content,
            "{} bytes",
            content.len()
        );
        one.remove(&key).await.expect("removed");
        one.remove(&key).await.expect("removing twice is fine");
        assert!(!other.exists(&key).await.expect("asked"));
        assert!(matches!(one.get(&key).await, Err(ObjectError::Missing(_))));
    }
}

/// Two servers with a database in common: what one of them removed, the other one stores anew although it has it in its cache.
#[tokio::test]
async fn what_was_removed_by_one_server_is_stored_again_by_another() {
    if !is_installed("moto_server") {
        return skipped("moto_server is not installed (pip install 'moto[server]')");
    }
    let moto = Moto::start();
    let (here, there, database) = (Folder::new("s3-here"), Folder::new("s3-there"), Folder::new("s3"));
    let (one, other) = (moto.open(&here).await, moto.open(&there).await);
    let url = format!("sqlite:{}", database.path().join("store.db").display());
    let store = server::store::open(&url).await.expect("the store opens");
    let keep = async |objects: &S3Objects, at: u64| {
        let mut staged = objects.stage(10).await.expect("staged");
        staged.write("again".into()).await.expect("written");
        let whole = staged.whole().await.expect("on disk");
        let key = whole.key().to_owned();
        let object = NewObject {
            key: key.clone(),
            bytes: whole.bytes(),
            at,
        };
        store
            .object(object, &Owner("local".to_owned()))
            .await
            .expect("noted");
        objects.keep(whole).await.expect("kept");
        key
    };
    let key = keep(&other, 1000).await;
    assert_eq!(store.remove_objects(&one, 1000).await.expect("done"), 0);
    assert_eq!(store.remove_objects(&one, 2000).await.expect("done"), 1);
    assert!(!other.exists(&key).await.expect("asked"));
    assert_eq!(keep(&other, 2000).await, key);
    assert!(one.exists(&key).await.expect("asked"));
    assert_eq!(
        fs::read(one.get(&key).await.expect("fetched")).expect("read"),
        b"again"
    );
}

#[tokio::test]
async fn what_is_not_what_it_is_called_is_not_handed_out() {
    if !is_installed("moto_server") {
        return skipped("moto_server is not installed (pip install 'moto[server]')");
    }
    let moto = Moto::start();
    let (here, there) = (Folder::new("s3-here"), Folder::new("s3-there"));
    let key = moto.open(&here).await.put("right".into()).await.expect("put");
    moto.request("PUT", &format!("/{BUCKET}/{}/{key}", &key[..2]), b"wrong");
    let got = moto.open(&there).await.get(&key).await;
    assert!(matches!(got, Err(ObjectError::Damaged(_))), "{got:?}");
}

/// A configuration with a bucket, and what else it says.
fn config(folder: &Folder, objects: &str, endpoint: &str) -> Config {
    let path = folder.path().join("server.toml");
    let text = format!(
        "objects = \"{objects}\"\n[s3]\nendpoint = \"{endpoint}\"\nregion = \"us-east-1\"\n\
         access_key_id = \"test\"\nsecret_access_key_file = \"secret\"\ncache = \"cache\"\n"
    );
    fs::write(&path, text).expect("written");
    fs::write(folder.path().join("secret"), "test\n").expect("written");
    Config::load(&path).expect("it can be read")
}

#[tokio::test]
async fn a_configuration_names_the_bucket_and_the_beginning_of_names() {
    if !is_installed("moto_server") {
        return skipped("moto_server is not installed (pip install 'moto[server]')");
    }
    let moto = Moto::start();
    let (here, cache) = (Folder::new("s3-configured"), Folder::new("s3-whole"));
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let config = config(&here, &format!("s3://{BUCKET}/crashes/native"), &endpoint);
    let objects = config.objects.open(&config.s3).await.expect("it is there");
    let key = objects.put("what happened".into()).await.expect("put");
    moto.request(
        "GET",
        &format!("/{BUCKET}/crashes/native/{}/{key}", &key[..2]),
        b"",
    );
    assert!(
        !moto.open(&cache).await.exists(&key).await.expect("asked"),
        "it is not at the top"
    );
    let path = objects.get(&key).await.expect("fetched");
    assert!(path.starts_with(here.path().join("cache")), "{path:?}");
}

#[tokio::test]
async fn whoever_names_a_bucket_that_is_not_there_is_told_what_to_check() {
    if !is_installed("moto_server") {
        return skipped("moto_server is not installed (pip install 'moto[server]')");
    }
    let moto = Moto::start();
    let here = Folder::new("s3-wrong");
    let endpoint = format!("http://127.0.0.1:{}", moto.port);
    let nobody = Config {
        objects: format!("s3://{BUCKET}").into(),
        ..Config::default()
    };
    if std::env::vars().all(|(name, _)| !name.starts_with("AWS_")) {
        let error = nobody
            .objects
            .open(&nobody.s3)
            .await
            .err()
            .expect("nobody is named");
        assert!(error.to_string().contains("`access_key_id`"), "{error}");
    }
    for (objects, endpoint, says) in [
        (
            "s3://nowhere",
            endpoint.as_str(),
            "The specified bucket does not exist. Check",
        ),
        ("s3://failsketch", "http://127.0.0.1:1", "Check `endpoint`"),
        ("s3://", endpoint.as_str(), "write s3://BUCKET"),
    ] {
        let config = config(&here, objects, endpoint);
        let Err(error) = config.objects.open(&config.s3).await else {
            panic!("{objects} opens");
        };
        let text = error.to_string();
        assert!(
            text.contains(says) && !text.contains('\n') && text.len() < 500,
            "{text}"
        );
    }
}
