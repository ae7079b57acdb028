//! Checks of notification targets, without sending anything.

use std::env;

use super::Finding;
use crate::{
    project::{config::NotifierTarget, workspace::Workspace},
    report::notify::desktop_is_here,
};

/// Checks that no target lacks a requirement. `None` without targets.
pub(super) fn all(workspace: &Workspace) -> Option<Finding> {
    const ABOUT: &str = "notify";
    let notifiers = &workspace.config.notify;
    if notifiers.is_empty() {
        return None;
    }
    let unset = |name: &str| env::var_os(name).is_none_or(|value| value.is_empty());
    let missing = notifiers.iter().find_map(|notifier| match &notifier.way {
        NotifierTarget::Run(_) => None,
        NotifierTarget::Desktop => {
            desktop_is_here(workspace.root()).err().map(|why| format!("desktop: {why}"))
        }
        way @ NotifierTarget::Webhook { url, secret_env } => {
            let names = url.strip_prefix('$').into_iter().chain(secret_env.as_deref());
            let name = names.into_iter().find(|name| unset(name))?;
            Some(format!("{way}: `{name}` is not set"))
        }
    });
    if let Some(why) = missing {
        return Some(Finding::warning(ABOUT, why, "`ralph notify --test` tests all targets"));
    }
    let names: Vec<String> = notifiers.iter().map(|one| one.way.to_string()).collect();
    Some(Finding::ok(ABOUT, format!("{}; `ralph notify --test` tests them", names.join(", "))))
}
