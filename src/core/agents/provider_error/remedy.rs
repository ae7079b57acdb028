//! What a person can do about a provider error that stops a run.

use super::ProviderErrorKind;
use crate::agents::{
    agent_command::AgentCommand,
    agent_preset::{self, AgentPreset},
};

impl ProviderErrorKind {
    /// What a person can do so that this agent can work, as an imperative; none if waiting is enough
    /// or the task is the reason.
    pub fn remedy(self, call: &AgentCommand) -> Option<String> {
        let program = call.argv.first().map_or("", String::as_str);
        let preset = agent_preset::of_command(&call.name, program);
        let login = preset.and_then(|preset| preset.login);
        Some(match self {
            ProviderErrorKind::Authentication => match login {
                Some(login) => login.how.to_owned(),
                None => format!("log in to `{}`, or set the key that it needs", call.name),
            },
            ProviderErrorKind::Credit => {
                "add credit to the account, or name another agent with `--agent`".to_owned()
            }
            ProviderErrorKind::Model => {
                "name a model of this account in the command of the agent or in its own settings"
                    .to_owned()
            }
            ProviderErrorKind::Setup => {
                format!("correct its command line, `{}`", call.argv.join(" "))
            }
            ProviderErrorKind::Missing => match preset.map(AgentPreset::installation) {
                Some(install) => install,
                None => "correct its command, or name another agent with `--agent`".to_owned(),
            },
            ProviderErrorKind::UsageLimit { .. }
            | ProviderErrorKind::RateLimit
            | ProviderErrorKind::Overloaded
            | ProviderErrorKind::ServerError
            | ProviderErrorKind::NoAnswer
            | ProviderErrorKind::Network
            | ProviderErrorKind::Refused
            | ProviderErrorKind::TooLong
            | ProviderErrorKind::TurnLimit
            | ProviderErrorKind::Budget => return None,
        })
    }
}

impl AgentPreset {
    /// How to install it, as an imperative.
    pub fn installation(&self) -> String {
        format!("install it with `{}`", self.install)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_that_stops_a_run_has_a_remedy() {
        let claude = AgentCommand::preset("claude").unwrap();
        let own = AgentCommand::command(vec!["./mine.sh".to_owned(), "-x".to_owned()]);
        for (error, call, part) in [
            (ProviderErrorKind::Authentication, &claude, "`claude` and `/login`"),
            (ProviderErrorKind::Authentication, &own, "log in to `mine.sh`"),
            (ProviderErrorKind::Missing, &claude, "`npm install -g @anthropic-ai/claude-code`"),
            (ProviderErrorKind::Missing, &own, "correct its command"),
            (ProviderErrorKind::Setup, &own, "`./mine.sh -x`"),
            (ProviderErrorKind::Credit, &claude, "add credit"),
            (ProviderErrorKind::Model, &claude, "name a model"),
        ] {
            let remedy = error.remedy(call).unwrap();
            assert!(remedy.contains(part), "{remedy}");
        }
        assert_eq!(ProviderErrorKind::Refused.remedy(&claude), None);
    }
}
