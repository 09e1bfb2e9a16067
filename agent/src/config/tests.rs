use watchpoint::Mode;

use super::*;

fn settings(text: &str) -> Settings {
    toml::from_str(text).unwrap()
}

const LEAST: &str = "server = 'https://failures.example:7070'\n[launch]\ncommand = ['true']\n";

fn refusal(text: &str) -> String {
    Config::try_from(settings(text))
        .map(|_| ())
        .unwrap_err()
        .to_string()
}

#[test]
fn little_has_to_be_said() {
    let config = Config::try_from(settings(LEAST)).unwrap();
    assert_eq!(config.window, Duration::from_secs(60));
    assert_eq!(config.ceiling, Ceiling(10_000));
    assert_eq!(config.privacy, Privacy::Full);
    assert_eq!(config.registers, 4);
    assert_eq!(config.spool_bytes, 256 << 20);
    assert!(!config.access.insecure);
    let Job::Launch(launch) = config.job else {
        panic!("another job")
    };
    assert_eq!((launch.runs, launch.mode), (None, Mode::Exact));
}

#[test]
fn everything_can_be_said() {
    let text = "
        server = 'https://failures.example:7070'
        token = '/etc/failsketch/token'
        ca = '/etc/failsketch/ca.pem'
        certificate = '/etc/failsketch/agent.pem'
        key = '/etc/failsketch/agent.key'
        host_id = '/srv/id'
        window_seconds = 10
        ceiling_percent = 0.25
        privacy = 'scalars'
        registers = 2
        control_flow = 'none'
        fail_on = 'signal,exit!=0'
        timeout_seconds = 1.5
        spool = { path = '/srv/spool', megabytes = 16 }
        [follow]
        unit = 'nginx'";
    let config = Config::try_from(settings(text)).unwrap();
    assert_eq!(
        config.job,
        Job::Follow(Followed::Unit("nginx.service".to_owned()))
    );
    assert_eq!(config.ceiling, Ceiling(2_500));
    assert_eq!(config.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(config.spool_bytes, 16 << 20);
    assert_eq!(config.privacy, Privacy::Scalars);
    assert!(config.fail_on.exit(3));
    assert!(config.access.identity.is_some());
}

#[test]
fn errors_name_the_key_and_what_to_write() {
    let with = |line: &str| refusal(&format!("{line}\n{LEAST}"));
    for (line, key, instead) in [
        ("window_seconds = 0", "window_seconds", "from 1"),
        ("ceiling_percent = 0.0", "ceiling_percent", "above 0"),
        ("ceiling_percent = 101.0", "ceiling_percent", "up to 100"),
        ("privacy = 'secret'", "privacy", "\"scalars\""),
        ("registers = 5", "registers", "from 0 to 4"),
        ("control_flow = 'magic'", "control_flow", "\"software-pt\""),
        ("fail_on = 'exit=='", "fail_on", "exit!=0"),
        ("timeout_seconds = -1.0", "timeout_seconds", "above 0"),
        ("spool = { megabytes = 0 }", "spool.megabytes", "from 1"),
        ("certificate = 'a.pem'", "key", "PEM"),
        ("key = 'a.key'", "certificate", "PEM"),
    ] {
        let said = with(line);
        assert!(
            said.contains(&format!("`{key}`")) && said.contains(instead),
            "{said}"
        );
    }
    let server = "server = 'https://failures.example:7070'\n";
    for (job, key) in [
        ("", "what to do"),
        ("[launch]", "launch.command"),
        ("[launch]\ncommand = ['a']\nmode = 'compat'", "launch.mode"),
        ("[attach]", "attach.pid"),
        ("[attach]\npid = 0", "attach.pid"),
        ("[follow]", "follow"),
        ("[follow]\nexecutable = 'app'", "follow.executable"),
        ("[follow]\nunit = 'a/b'", "follow.unit"),
        ("[follow]\nunit = 'a'\ncgroup = 'b'", "follow"),
        ("[launch]\ncommand = ['a']\n[attach]\npid = 1", "what to do"),
    ] {
        let said = refusal(&format!("{server}{job}"));
        assert!(
            said.contains(&format!("`{key}`")) && said.contains("write"),
            "{job}: {said}"
        );
    }
    assert!(refusal("[launch]\ncommand = ['a']").contains("--server"));
}

#[test]
fn a_file_says_where_it_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    for (text, said) in [
        ("server = 'x'\nwindow = 5\n", ["line 2", "window_seconds"]),
        ("server = 'x'\n\nregisters = 'four'\n", ["line 3", "u32"]),
        ("[follow]\nunits = 'x'\n", ["line 2", "cgroup"]),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Settings::read(&path).unwrap_err().to_string();
        assert!(said.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn flags_win() {
    let file = settings(&format!(
        "window_seconds = 5\nspool = {{ megabytes = 7, path = '/a' }}\n{LEAST}"
    ));
    let flags = settings("window_seconds = 9\nspool = { path = '/b' }\n[attach]\npid = 7");
    let config = Config::try_from(flags.over(file)).unwrap();
    assert_eq!(config.window, Duration::from_secs(9));
    assert_eq!(
        (config.spool.as_path(), config.spool_bytes),
        (Path::new("/b"), 7 << 20)
    );
    assert_eq!(
        config.job,
        Job::Attach(7),
        "what the file says to do is not done as well"
    );
    assert_eq!(config.access.server, "https://failures.example:7070");
}
