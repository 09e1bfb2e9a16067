//! A browser: headless Chromium, driven through WebDriver as Debian's chromium-driver speaks it.
//!
//! Of the protocol a dozen calls are needed, and two things that are Chromium's own (its log and its DevTools commands), so this is
//! all there is between a test and the driver.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::running::Running;

/// Whatever takes longer does not come, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);
/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    driver: Running,
    agent: ureq::Agent,
    session: String,
}

/// A key, as WebDriver writes it.
pub mod key {
    /// Tab.
    pub const TAB: &str = "\u{e004}";
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
}

impl Browser {
    /// Starts one.
    ///
    /// # Panics
    /// When there is none, or it does not start.
    #[must_use]
    pub fn start() -> Self {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0");
        let driver = Running::start(&mut command);
        let said = driver.stdout_line("ChromeDriver was started successfully on port ");
        let said = said.expect("chromedriver starts: packages chromium and chromium-driver");
        let port: String = said.chars().filter(char::is_ascii_digit).collect();
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(2 * LONGEST))
            .http_status_as_error(false)
            .build()
            .new_agent();
        let mut browser = Self {
            driver,
            agent,
            session: format!("http://127.0.0.1:{port}/session"),
        };
        let arguments = [
            "--headless=new",
            // Tests run as root, in containers with little shared memory.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            // Servers of tests have an authority of their own.
            "acceptInsecureCerts": true,
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let made = browser.call("", &wanted);
        let id = made["sessionId"].as_str().expect("a session has an id");
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    fn call(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask(path, body);
        answer.unwrap_or_else(|message| panic!("{path} {body}: {message}"))
    }

    /// What the driver says to something; `Err` is why it does not do it.
    fn ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        let address = format!("{}{path}", self.session);
        let answer = self.agent.post(&address).send(body.to_string());
        let mut answer = answer.unwrap_or_else(|error| panic!("{path}: {error}"));
        let is_done = answer.status().is_success();
        let text = answer.body_mut().with_config().limit(256 << 20).read_to_string();
        let mut value: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
        if !is_done {
            return Err(value["value"]["message"].to_string());
        }
        Ok(value["value"].take())
    }

    /// Opens a page, and waits until it is loaded.
    pub fn open(&self, address: &str) {
        self.call("/url", &json!({"url": address}));
    }

    /// Has the page run a script, whose `return` is the answer; one that is a promise is waited for.
    #[must_use]
    pub fn run(&self, script: &str) -> Value {
        self.call("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The same, as text.
    ///
    /// # Panics
    /// When it is something else.
    #[must_use]
    pub fn text(&self, script: &str) -> String {
        let value = self.run(script);
        let text = value.as_str().unwrap_or_else(|| panic!("{script} gives {value}"));
        text.to_owned()
    }

    /// Waits until an expression of the page is true.
    ///
    /// # Panics
    /// When it never is.
    pub fn wait(&self, expression: &str) {
        let until = Instant::now() + LONGEST;
        while self.run(&format!("return !!({expression})")) != Value::Bool(true) {
            if Instant::now() > until {
                let page = self.text("return document.body.innerText");
                panic!("{expression} does not come true:\n{page}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks on the first element that fits, as somebody with a mouse.
    ///
    /// # Panics
    /// When there is none, or something else is before it.
    pub fn click(&self, selector: &str) {
        let until = Instant::now() + LONGEST;
        loop {
            let found = self.call("/element", &json!({"using": "css selector", "value": selector}));
            let id = found[ELEMENT].as_str().expect("an element has an id");
            match self.ask(&format!("/element/{id}/click"), &json!({})) {
                Ok(_) => return,
                // A page that is kept current has put another in its place: that one is meant.
                Err(message) if message.contains("stale element") && Instant::now() < until => {}
                Err(message) => panic!("{selector}: {message}"),
            }
        }
    }

    /// Has the pointer rest on the first element of a selector.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn hover(&self, selector: &str) {
        let found = self.call("/element", &json!({"using": "css selector", "value": selector}));
        let step = json!({"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": found});
        let pointer = json!({"type": "pointer", "id": "mouse", "actions": [step]});
        self.call("/actions", &json!({"actions": [pointer]}));
    }

    /// Presses keys, one after the other.
    pub fn keys(&self, keys: &str) {
        let press = |key: char| {
            [
                json!({"type": "keyDown", "value": key.to_string()}),
                json!({"type": "keyUp", "value": key.to_string()}),
            ]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let source = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.call("/actions", &json!({"actions": [source]}));
    }

    /// A command of Chromium's own.
    #[must_use]
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.call(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    /// As wide as a phone or a screen, in the light or in the dark.
    pub fn look(&self, width: u32, is_dark: bool) {
        let height = if width < 700 { 844 } else { width * 5 / 8 };
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let _ = self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        let _ = self.devtools("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// A picture of the whole page, as the base64 of a PNG.
    #[must_use]
    pub fn picture(&self) -> String {
        let taken = self.devtools(
            "Page.captureScreenshot",
            &json!({"captureBeyondViewport": true, "clip": self.whole()}),
        );
        taken["data"].as_str().unwrap_or_default().to_owned()
    }

    fn whole(&self) -> Value {
        let size = self.run("const e = document.documentElement; return [innerWidth, e.scrollHeight]");
        json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1})
    }

    /// What the console said since it was asked last.
    #[must_use]
    pub fn console(&self) -> Vec<String> {
        let entries = self.log("browser");
        let line = |entry: &Value| format!("{} {}", entry["level"].as_str().unwrap_or(""), entry["message"]);
        entries.iter().map(line).collect()
    }

    /// The addresses that were asked for since that was asked last.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        let events = self.log("performance");
        let event = |entry: &Value| serde_json::from_str::<Value>(entry["message"].as_str()?).ok();
        let events = events.iter().filter_map(event);
        let asked = events.filter(|event| event["message"]["method"] == "Network.requestWillBeSent");
        let address = |event: Value| {
            let address = &event["message"]["params"]["request"]["url"];
            Some(address.as_str()?.to_owned())
        };
        asked.filter_map(address).collect()
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        let log = self.call("/se/log", &json!({"type": kind}));
        log.as_array().cloned().unwrap_or_default()
    }

    /// Runs a script file that is too long for an argument of another.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn load(&self, file: &Path) {
        let script =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let _ = self.devtools("Runtime.evaluate", &json!({"expression": script}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with the session.
        let _ended = self.agent.delete(&self.session).call();
        self.driver.kill();
    }
}
