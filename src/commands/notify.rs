//! `ralph notify`: lists the notification targets, or tests them.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, json};

use super::{Invocation, success};
use crate::{
    adapters::terminal::{self, Paint, Style, visible},
    cli,
    core::{duration, exit::Exit, variants},
    project::{config::Notifier, workspace::Workspace},
    report::notify::Messenger,
    view::{
        lines::{self, counted},
        message::MessageSender,
    },
};

/// The name of the test event.
const TEST: &str = "test";

/// Lists the targets, or sends a test notification to each.
///
/// # Errors
/// No repository, invalid settings.
pub fn run(invocation: &Invocation, options: &cli::NotifyArgs) -> Result<Exit> {
    let workspace = invocation.workspace()?;
    let notifiers = &workspace.config.notify;
    if notifiers.is_empty() {
        terminal::say("no notifications configured; add them as `notify` to `.ralph/config.yaml`");
        return Ok(Exit::Success);
    }
    if options.test {
        return test(&workspace);
    }
    let width = terminal::stdout_width().unwrap_or(80);
    let mut text = String::new();
    for notifier in notifiers {
        let who = notifier.way.to_string();
        for line in [visible(&who).into_owned(), format!("    {}", moments(notifier))] {
            text += &terminal::wrap(&line, width).join("\n");
            text += "\n";
        }
    }
    success(&text)
}

fn moments(notifier: &Notifier) -> String {
    if notifier.on == variants::all() {
        return "any".to_owned();
    }
    let words: Vec<&str> = notifier.on.iter().map(|moment| moment.word()).collect();
    words.join(", ")
}

/// Sends a test notification to each target and prints the results.
fn test(workspace: &Workspace) -> Result<Exit> {
    let sender = MessageSender::of(workspace);
    let facts = Map::from_iter([("why".to_owned(), json!("`ralph notify --test`"))]);
    let text = lines::plain("this is a test notification of `ralph`");
    let message = sender.message(TEST, facts, &[text]);
    let paint = Paint::for_stream(&std::io::stdout());
    let mut failed = 0;
    for notifier in &workspace.config.notify {
        let messenger = Messenger::new(
            notifier.way.clone(),
            workspace.config.notify_timeout,
            workspace.state.dir().join("notify"),
            format!("{TEST}-{}", std::process::id()),
            workspace.root().to_owned(),
        );
        let began = Instant::now();
        let result = messenger.tell(&message, &|| false);
        let took = duration::short(began.elapsed());
        let (style, word, rest) = match result {
            Ok(()) => (Style::Good, "sent", format!("in {took}")),
            Err(why) => {
                failed += 1;
                (Style::Bad, "failed", format!("after {took}: {why}"))
            }
        };
        let who = notifier.way.to_string();
        let line = format!("{} {}", visible(&who), visible(&rest));
        let word = paint.text(style, format!("{word:<6}"));
        terminal::print(&format!("{word}  {line}\n"))?;
    }
    if failed == 0 {
        return Ok(Exit::Success);
    }
    let of = counted(workspace.config.notify.len(), "notifier");
    terminal::say(&format!("{failed} of {of} failed; correct `notify` in the settings"));
    Ok(Exit::Error)
}
