//! A real browser: Chromium, driven over HTTP through chromedriver.

use std::{
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{unavailable, until};

/// The keys that are not characters, in the protocol of drivers.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const ESCAPE: &str = "\u{e00c}";
pub const RIGHT: &str = "\u{e014}";

/// Starts chromedriver on a free port; `None` if it ended at once.
///
/// # Errors
/// There is no chromedriver.
fn started() -> io::Result<Option<(Child, String)>> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = command.spawn()?;
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.ok()?;
        let (_, port) = line.split_once("started successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    });
    if port.is_none() {
        let _ = driver.kill();
        driver.wait()?;
    }
    Ok(port.map(|port| (driver, port)))
}

/// A browser with one page open; ended when dropped.
pub struct Browser {
    driver: Child,
    agent: ureq::Agent,
    base: String,
    session: String,
    /// Removed with the browser.
    profile: TempDir,
}

impl Browser {
    /// A browser of 1280 by 800; `None` without chromedriver.
    pub fn start() -> Option<Browser> {
        // It ends at once where the port that it got for IPv6 is in use for IPv4.
        let mut tries = (0..20).map(|_| started());
        let found = tries.find_map(Result::transpose).expect("chromedriver starts");
        let Ok((driver, port)) = found else {
            unavailable("there is no chromedriver here");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        let mut browser = Browser {
            driver,
            agent: config.into(),
            base: format!("http://127.0.0.1:{port}"),
            session: String::new(),
            profile,
        };
        let folder = browser.profile.path().display();
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &format!("--user-data-dir={folder}"),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.call("", &wanted);
        browser.session = format!("/{}", session["sessionId"].as_str().unwrap());
        browser.size(1280);
        Some(browser)
    }

    /// Sends a command, and returns its value.
    #[track_caller]
    fn call(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}/session{}{path}", self.base, self.session);
        let request = self.agent.post(&url).header("content-type", "application/json");
        let mut answer = request.send(body.to_string()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let mut json: Value = serde_json::from_str(&text).unwrap();
        assert!(answer.status().is_success(), "{path}: {text}");
        json["value"].take()
    }

    #[track_caller]
    fn protocol(&self, command: &str, parameters: &Value) {
        self.call("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// Opens an address.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.call("/url", &json!({ "url": url }));
    }

    /// Runs a script, and returns what it returns.
    #[track_caller]
    pub fn script(&self, script: &str) -> Value {
        self.call("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Runs a script that calls `done` with its result.
    #[track_caller]
    pub fn later(&self, script: &str) -> Value {
        let script = format!("const done = arguments[0]; {script}");
        self.call("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// The text of the page.
    #[track_caller]
    pub fn text(&self) -> String {
        self.script("return document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Waits until the page has this text.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        until(&format!("the page shows `{text}`"), || self.text().contains(text));
    }

    /// How many elements match.
    #[track_caller]
    pub fn count(&self, selector: &str) -> u64 {
        let script = format!("return document.querySelectorAll({}).length", json!(selector));
        self.script(&script).as_u64().unwrap()
    }

    /// Waits until so many elements match.
    #[track_caller]
    pub fn has(&self, count: u64, selector: &str) {
        until(&format!("{count} × `{selector}`"), || self.count(selector) == count);
    }

    /// Goes to a view, and waits until it is shown.
    #[track_caller]
    pub fn view(&self, address: &str) {
        self.script(&format!("location.hash = {}", json!(address)));
        until(&format!("{address} is shown"), || {
            let script = format!(
                "return location.hash === {} && document.querySelector('#view h1') !== null",
                json!(address)
            );
            self.script(&script) == true
        });
    }

    /// Clicks an element that matches.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        let script = format!(
            "document.querySelector({}).scrollIntoView({{ block: 'center' }})",
            json!(selector)
        );
        self.script(&script);
        self.call(&format!("/element/{element}/click"), &json!({}));
    }

    /// Types into an element.
    #[track_caller]
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.call(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        self.has_any(selector);
        let found = self.call("/element", &json!({ "using": "css selector", "value": selector }));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Waits until an element matches.
    #[track_caller]
    pub fn has_any(&self, selector: &str) {
        until(&format!("there is `{selector}`"), || self.count(selector) > 0);
    }

    /// Presses keys, one after the other, wherever the focus is.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        let device = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.call("/actions", &json!({ "actions": [device] }));
    }

    /// Sets the width of the window.
    #[track_caller]
    pub fn size(&self, width: u32) {
        let size =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.protocol("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets whether the system prefers dark colors.
    #[track_caller]
    pub fn prefers(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.protocol("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// The errors and warnings of the console so far.
    #[track_caller]
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.call("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(format!("{}/session{}", self.base, self.session)).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
