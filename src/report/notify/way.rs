//! The ways to send a notification: a command, a webhook, the desktop.

use std::{
    convert::Infallible,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use super::ProgramMessage;
use crate::{
    adapters::{
        agent_output,
        process::{self, GuardianProgram, GuardianSpec, ProcessSpec},
    },
    core::verdict::Outcome,
    project::config::NotifierTarget,
    view::message,
};

/// The time between asking a command to end and killing it.
const GRACE: Duration = Duration::from_secs(1);

/// The sender of notifications by one way.
pub struct Messenger {
    /// The way of sending.
    pub way: NotifierTarget,
    /// The time limit for one notification.
    timeout: Duration,
    /// The folder for the files of a command while it runs.
    folder: PathBuf,
    /// The name of these files.
    name: String,
    root: PathBuf,
}

impl Messenger {
    /// Returns a messenger that puts files of this name into `folder` and runs commands in `root`.
    pub fn new(
        way: NotifierTarget,
        timeout: Duration,
        folder: PathBuf,
        name: String,
        root: PathBuf,
    ) -> Messenger {
        Messenger { way, timeout, folder, name, root }
    }

    /// Sends a message, unless `is_cut` says that there is no time left.
    ///
    /// # Errors
    /// A message without secret parts of the configuration.
    pub fn tell(&self, message: &ProgramMessage, is_cut: &dyn Fn() -> bool) -> Result<(), String> {
        match &self.way {
            _ if is_cut() => Err("the run ended before it could be sent".to_owned()),
            NotifierTarget::Run(command) => {
                let argv = ["sh", "-c", command].map(str::to_owned).to_vec();
                self.run(argv, message, is_cut)
            }
            NotifierTarget::Desktop => {
                desktop_is_here(&self.root)?;
                self.run(desktop(message), message, is_cut)
            }
            NotifierTarget::Webhook { url, secret_env } => {
                self.post(url, secret_env.as_deref(), message, is_cut)
            }
        }
    }

    /// Runs a command with the message, and ends all that it started.
    fn run(
        &self,
        argv: Vec<String>,
        message: &ProgramMessage,
        is_cut: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let file = |kind: &str| self.folder.join(format!("{}.{kind}", self.name));
        let (input, output) = (file("json"), file("log"));
        let write = || {
            fs::create_dir_all(&self.folder)?;
            fs::write(&input, format!("{}\n", message.json))?;
            fs::write(&output, "")?;
            File::open(&self.folder)
        };
        let lock = write().map_err(|error| format!("`{}`: {error}", self.folder.display()))?;
        let spec = ProcessSpec {
            argv,
            dir: self.root.clone(),
            env: message.variables.clone(),
            env_remove: message::inherited(),
            stdin: input.clone(),
            stdout: output.clone(),
            stderr: output.clone(),
        };
        let guardians = GuardianProgram::new(&lock).map_err(|error| error.to_string())?;
        let spec = GuardianSpec::new(spec, input.clone(), true);
        let turn = |_: &_| Ok::<_, Infallible>(!is_cut());
        let limits = (self.timeout, GRACE);
        let Ok(outcome) = process::run_guarded(&guardians, &spec, limits, turn);
        let last = agent_output::last_line(&output);
        for path in [input, output] {
            let _ = fs::remove_file(path);
        }
        match (outcome, last) {
            (Outcome::Exited { exit_code: 0 }, _) => Ok(()),
            (outcome, None) => Err(outcome.to_string()),
            (outcome, Some(last)) => Err(format!("{outcome}: {last}")),
        }
    }

    #[cfg(feature = "webhook")]
    fn post(
        &self,
        url: &str,
        secret_env: Option<&str>,
        message: &ProgramMessage,
        is_cut: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        use std::{thread, time::Instant};

        use crate::{
            adapters::webhook,
            core::hmac::{SIGNATURE, TIMESTAMP, sign},
        };

        const TRIES: u32 = 3;
        const PAUSE: Duration = Duration::from_millis(500);
        let variable = |name: &str| match env::var(name) {
            Ok(value) if !value.is_empty() => Ok(value),
            _ => Err(format!("`{name}` is not set")),
        };
        let address = url.strip_prefix('$').map_or_else(|| Ok(url.to_owned()), variable)?;
        let secret = secret_env.map(variable).transpose()?;
        let mut pause = PAUSE;
        let mut tried = 0;
        loop {
            tried += 1;
            let time = chrono::Utc::now().timestamp().to_string();
            let mut headers = vec![(TIMESTAMP, time.clone())];
            if let Some(secret) = &secret {
                let signed = sign(secret.as_bytes(), &time, message.json.as_bytes());
                headers.push((SIGNATURE, signed));
            }
            match webhook::post(&address, &headers, &message.json, self.timeout) {
                Ok(()) => return Ok(()),
                Err(refused) if !refused.again || is_cut() => return Err(refused.why),
                Err(refused) if tried == TRIES => {
                    return Err(format!("{} (tried {TRIES} times)", refused.why));
                }
                Err(_) => {}
            }
            let began = Instant::now();
            while began.elapsed() < pause && !is_cut() {
                thread::sleep(Duration::from_millis(20));
            }
            pause *= 2;
        }
    }

    #[cfg(not(feature = "webhook"))]
    #[expect(clippy::unused_self, reason = "it is used in builds with webhooks")]
    fn post(
        &self,
        _url: &str,
        _secret_env: Option<&str>,
        _message: &ProgramMessage,
        _is_cut: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        unreachable!("settings with a webhook are refused by such a build")
    }
}

/// Checks that a notification can be shown on a desktop.
///
/// # Errors
/// A message for people.
pub fn desktop_is_here(dir: &Path) -> Result<(), String> {
    process::resolve(PROGRAM, dir)?;
    let display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    if display || cfg!(target_os = "macos") {
        Ok(())
    } else {
        Err("no display is available".to_owned())
    }
}

/// The program that shows a notification on the desktop.
const PROGRAM: &str = if cfg!(target_os = "macos") { "osascript" } else { "notify-send" };

fn desktop(message: &ProgramMessage) -> Vec<String> {
    if cfg!(target_os = "macos") {
        let script = [
            "on run argv",
            "display notification (item 2 of argv) with title (item 1 of argv)",
            "end run",
        ];
        let script = script.iter().flat_map(|line| ["-e", line]);
        let words = script.chain([message.title.as_str(), &message.text]);
        return [PROGRAM].into_iter().chain(words).map(str::to_owned).collect();
    }
    // The notification service interprets markup in the text.
    let text = message.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    [PROGRAM, "--app-name=ralph", "--", &message.title, &text].map(str::to_owned).to_vec()
}
