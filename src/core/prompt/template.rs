//! The built-in templates, printed by `ralph template` and written by `ralph init`.

use crate::prompt::{DEFAULT_TEMPLATE, DRAFT_TEMPLATE, FOLLOW_UP_TEMPLATE, REVIEW_TEMPLATE};

/// A built-in template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// `prompts/task.md`: the prompt for a task.
    Task,
    /// `prompts/draft.md`: the prompt of `ralph draft`.
    Draft,
    /// `prompts/review.md`: the prompt of a reviewer.
    Review,
    /// `prompts/follow-up.md`: another prompt in a conversation.
    FollowUp,
    /// `PROMPT.md` of a loop without a graph.
    Prompt,
    /// `task-graph.yaml`.
    Graph,
    /// `.ralph/config.yaml`.
    Config,
    /// A paragraph for `AGENTS.md` or `CLAUDE.md`.
    Agents,
    /// The recipes for a `justfile`.
    Just,
    /// The skill for Claude Code, `.claude/skills/ralph/SKILL.md`.
    Skill,
}

impl Template {
    /// All templates, with their names and descriptions.
    pub const ALL: &[(&str, &str, Template)] = &[
        ("task", "`prompts/task.md`, the prompt for a task", Template::Task),
        ("draft", "`prompts/draft.md`, the prompt of `ralph draft`", Template::Draft),
        ("review", "`prompts/review.md`, the prompt of a reviewer", Template::Review),
        (
            "follow-up",
            "`prompts/follow-up.md`, another prompt in a conversation",
            Template::FollowUp,
        ),
        ("prompt", "`PROMPT.md`, for a loop without a graph", Template::Prompt),
        ("graph", "`task-graph.yaml` with two examples", Template::Graph),
        ("config", "`.ralph/config.yaml`", Template::Config),
        ("agents", "The paragraph for AGENTS.md or CLAUDE.md", Template::Agents),
        ("just", "The recipes for a justfile", Template::Just),
        ("skill", "The skill for Claude Code", Template::Skill),
    ];

    /// Its text.
    pub fn text(self) -> String {
        match self {
            Template::Task => DEFAULT_TEMPLATE.to_owned(),
            Template::Draft => DRAFT_TEMPLATE.to_owned(),
            Template::Review => REVIEW_TEMPLATE.to_owned(),
            Template::FollowUp => FOLLOW_UP_TEMPLATE.to_owned(),
            Template::Prompt => include_str!("template/prompt.md").to_owned(),
            Template::Graph => format!("{GRAPH_HEAD}{TASKS_START}"),
            Template::Config => include_str!("template/config.yaml").to_owned(),
            Template::Agents => include_str!("template/agents.md").to_owned(),
            Template::Just => include_str!("template/just").to_owned(),
            Template::Skill => include_str!("template/skill.md").to_owned(),
        }
    }
}

/// A task graph without tasks.
pub const GRAPH_HEAD: &str = include_str!("template/graph.yaml");
/// Tasks for a project that has no code yet.
pub const TASKS_START: &str = include_str!("template/tasks-start.yaml");
/// Tasks for a project that has code.
pub const TASKS_CODE: &str = include_str!("template/tasks-code.yaml");
/// A task that creates other tasks from a document, named `PLAN` in the text.
pub const TASK_PLAN: &str = include_str!("template/tasks-plan.yaml");
/// The user settings.
pub const GLOBAL: &str = include_str!("template/global.yaml");
/// `.ralph/.gitignore`.
pub const IGNORE: &str = include_str!("template/ignore");
