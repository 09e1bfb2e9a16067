use super::*;

fn of(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("failsketch.toml");
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Config::load(&path).map_err(|error| error.to_string())
}

fn error(text: &str) -> String {
    of(text).map(|_| ()).unwrap_err()
}

const HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn nothing_said_is_loopback_without_credentials() {
    let config = of("").unwrap();
    assert!(config.listen.ip().is_loopback() && config.trusts_loopback());
    assert_eq!(config.limits, Config::default().limits);
    Config::default().check().unwrap();
}

#[test]
fn off_loopback_takes_tls_or_so_many_words() {
    let token = format!("[[token]]\nname = \"a\"\nsha256 = \"{HASH}\"\nroles = [\"agent\"]\n");
    let open = format!("listen = \"0.0.0.0:7070\"\n{token}");
    let said = error(&open);
    assert!(
        said.contains("insecure = true") && said.contains("[tls]"),
        "{said}"
    );
    let config = of(&format!("insecure = true\n{open}")).unwrap();
    assert!(!config.trusts_loopback());
    let tls = "[tls]\ncertificate = \"s.pem\"\nkey = \"/k/s.key\"\n";
    let config = of(&format!("{open}{tls}")).unwrap();
    let tls = config.tls.unwrap();
    assert!(tls.certificate.is_absolute() && tls.certificate.ends_with("s.pem"));
    assert_eq!(tls.key, Path::new("/k/s.key"));
}

#[test]
fn who_could_never_be_let_in_is_told() {
    assert!(error("listen = \"0.0.0.0:1\"\ninsecure = true\n").contains("[[token]]"));
}

#[test]
fn a_proxy_on_this_host_is_not_everybody() {
    let proxy = "[proxy]\nheader = \"x-user\"\ntrusted = [\"127.0.0.1/32\"]\n";
    assert!(!of(proxy).unwrap().trusts_loopback());
    assert!(error(&format!("trust_loopback = true\n{proxy}")).contains("trust_loopback = false"));
    assert!(error("[proxy]\nheader = \"x-user\"\ntrusted = []\n").contains("trusted = ["));
}

#[test]
fn what_is_not_known_is_an_error_with_its_place() {
    let said = error("lisen = \"127.0.0.1:1\"\n");
    assert!(said.contains("lisen") && said.contains("line 1"), "{said}");
    assert!(error("[limits]\nmessage_byte = 1\n").contains("message_byte"));
    assert!(
        error("[[token]]\nname = \"a\"\nsha256 = \"12\"\nroles = []\n").contains("64 hexadecimal digits")
    );
    let said = error(&format!(
        "[[token]]\nname = \"a\"\nsha256 = \"{HASH}\"\nroles = [\"root\"]\n"
    ));
    assert!(said.contains("root"), "{said}");
}

#[test]
fn certificates_need_an_authority_and_names_are_each_ones_own() {
    let certificate = "[[certificate]]\ncommon_name = \"a\"\nroles = [\"agent\"]\n";
    assert!(error(certificate).contains("client_ca = "));
    let token = format!("[[token]]\nname = \"a\"\nsha256 = \"{HASH}\"\nroles = [\"agent\"]\n");
    assert!(error(&format!("{token}{token}")).contains("twice"));
}

#[test]
fn limits_that_let_nothing_through_are_refused() {
    assert!(error("[limits]\nmessage_bytes = 1\n").contains("limits.message_bytes = 1"));
    assert!(error("[limits]\nhost_bytes = 70000\n").contains("limits.host_bytes"));
}

#[test]
fn the_database_is_beside_the_file() {
    let config = of("").unwrap();
    assert!(config.store.starts_with("sqlite:/") && config.store.ends_with("/failsketch.db"));
    assert_eq!(
        of("store = \"sqlite::memory:\"").unwrap().store,
        "sqlite::memory:"
    );
    assert_eq!(
        of("store = \"postgres://db/f\"").unwrap().store,
        "postgres://db/f"
    );
}
