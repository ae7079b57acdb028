//! Commands as tools of another program: the arguments as a JSON schema, and the command line for
//! arguments in JSON. Both are derived from the flags of the command.

use clap::{Arg, ArgAction, Command, CommandFactory as _, builder::PossibleValue};
use serde_json::{Map, Value, json};

use super::Cli;

/// Flags that a tool always sets where the command has them.
const ALWAYS: [&str; 2] = ["json", "detach"];
/// Flags that a tool does not have: they wait for a person, start another program, or change how text
/// looks on a terminal.
const NEVER: [&str; 7] = ["help", "watch", "tool", "serve", "tmux", "quiet", "verbose"];
/// The flag that names a file. A tool takes the text itself, and passes it on standard input.
const TEXT: &str = "description";

/// A command as a tool.
#[derive(Debug)]
pub struct ToolCommand(Command);

/// The arguments and the standard input for a call of this program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommandCall {
    /// The arguments.
    pub arguments: Vec<String>,
    /// The standard input.
    pub input: String,
}

impl ToolCommand {
    /// The commands of these names, in this order.
    pub fn all<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<ToolCommand> {
        let mut whole = Cli::command();
        whole.build();
        names
            .into_iter()
            .filter_map(|name| whole.find_subcommand(name).cloned().map(Self))
            .collect()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.get_name()
    }

    /// What it does, without the examples.
    pub fn about(&self) -> String {
        let about = self.0.get_about().map(ToString::to_string).unwrap_or_default();
        let more = self.0.get_after_help().map(ToString::to_string).unwrap_or_default();
        let more = more.split("Examples:").next().unwrap_or_default();
        format!("{about}. {more}").trim().to_owned()
    }

    /// The arguments of the tool.
    fn arguments(&self) -> impl Iterator<Item = &Arg> {
        let is_offered = |arg: &&Arg| {
            let name = name_of(arg);
            !arg.is_hide_set()
                && !arg.is_last_set()
                && !ALWAYS.contains(&name)
                && !NEVER.contains(&name)
        };
        self.0.get_arguments().filter(is_offered)
    }

    /// The JSON schema of the arguments.
    pub fn schema(&self) -> Map<String, Value> {
        let property = |arg: &Arg| {
            let mut one = if arg.get_action().takes_values() {
                json!({"type": "string"})
            } else {
                json!({"type": "boolean"})
            };
            let values = arg.get_possible_values();
            if !values.is_empty() && arg.get_action().takes_values() {
                one["enum"] = values.iter().map(PossibleValue::get_name).collect();
            }
            if is_list(arg) {
                one = json!({"type": "array", "items": one});
            }
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            one["description"] = match name_of(arg) {
                TEXT => "What must be true when the task is complete".into(),
                _ => help.split_whitespace().collect::<Vec<_>>().join(" ").into(),
            };
            (name_of(arg).to_owned(), one)
        };
        let properties: Map<String, Value> = self.arguments().map(property).collect();
        let required: Vec<&str> =
            self.arguments().filter(|arg| arg.is_required_set()).map(name_of).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        schema
    }

    /// The command line for these arguments. No value is read as a flag.
    ///
    /// # Errors
    /// An unknown argument, or a value of another type. What the command itself refuses is not checked.
    pub fn call(&self, given: &Map<String, Value>) -> Result<CommandCall, String> {
        let names: Vec<&str> = self.arguments().map(name_of).collect();
        if let Some(unknown) = given.keys().find(|name| !names.contains(&name.as_str())) {
            let unknown = unknown.escape_debug();
            return Err(format!("no argument `{unknown}`; there are {}", names.join(", ")));
        }
        let mut flags = vec![self.name().to_owned()];
        let has = |name: &&&str| self.0.get_arguments().any(|arg| arg.get_long() == Some(**name));
        flags.extend(ALWAYS.iter().filter(has).map(|name| format!("--{name}")));
        let (mut words, mut input) = (Vec::new(), String::new());
        for arg in self.arguments() {
            let name = name_of(arg);
            let Some(value) = given.get(name).filter(|value| !value.is_null()) else { continue };
            if !arg.get_action().takes_values() {
                match value.as_bool() {
                    Some(true) => flags.push(format!("--{name}")),
                    Some(false) => {}
                    None => return Err(format!("`{name}` must be true or false")),
                }
                continue;
            }
            let values = match value {
                Value::Array(values) if is_list(arg) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            for value in values {
                let Some(text) = text_of(value) else {
                    let kind = if is_list(arg) { "a list of texts" } else { "a text" };
                    return Err(format!("`{name}` must be {kind}"));
                };
                match arg.get_long() {
                    Some(TEXT) => {
                        flags.push(format!("--{TEXT}=-"));
                        input = text;
                    }
                    Some(long) => flags.push(format!("--{long}={text}")),
                    None => words.push(text),
                }
            }
        }
        if !words.is_empty() {
            flags.push("--".to_owned());
        }
        Ok(CommandCall { arguments: flags.into_iter().chain(words).collect(), input })
    }
}

/// The name of an argument of a tool.
fn name_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str())
}

/// Whether an argument takes several values.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The text of a scalar.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> ToolCommand {
        ToolCommand::all([name]).remove(0)
    }

    fn called(name: &str, given: Value) -> Result<CommandCall, String> {
        let Value::Object(given) = given else { panic!("{given}") };
        tool(name).call(&given)
    }

    #[test]
    fn the_schema_says_what_the_flags_say() {
        let schema = tool("task-add").schema();
        assert_eq!(schema["required"], json!(["title"]));
        assert_eq!(schema["properties"]["verify"]["items"], json!({"type": "string"}));
        assert!(schema["properties"].get("json").is_none(), "{schema:?}");
        assert!(
            schema["properties"].get("graph").is_none(),
            "global flags are those of the server"
        );
        let diff = tool("diff").schema();
        assert_eq!(diff["properties"]["stat"]["type"], "boolean");
        assert!(diff["properties"].get("tool").is_none());
        let run = tool("run").schema();
        for name in ["agent", "jobs", "once"] {
            assert!(run["properties"].get(name).is_some(), "{name}");
        }
        assert!(run["properties"].get("detach").is_none());
    }

    #[test]
    fn no_value_is_read_as_a_flag() {
        let add = json!({"title": "--id=x", "after": ["a", "--b"], "priority": 1,
            "description": "--help\nme", "verify": "make test"});
        let add = called("task-add", add).unwrap();
        assert_eq!(
            add.arguments,
            [
                "task-add",
                "--json",
                "--after=a",
                "--after=--b",
                "--priority=1",
                "--verify=make test",
                "--description=-",
                "--",
                "--id=x"
            ]
        );
        assert_eq!(add.input, "--help\nme");
        let run = called("run", json!({"once": true, "jobs": null})).unwrap();
        assert_eq!(run.arguments, ["run", "--detach", "--once"]);
        let stat = called("diff", json!({"stat": false, "id": "-x"})).unwrap();
        assert_eq!(stat.arguments, ["diff", "--", "-x"]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (given, part) in [
            (json!({"titel": "x"}), "no argument `titel`; there are title, id,"),
            (json!({"json": false}), "no argument `json`"),
            (json!({"title": {"a": 1}}), "`title` must be a text"),
            (json!({"title": ["a"]}), "`title` must be a text"),
            (json!({"title": "a", "after": [["b"]]}), "`after` must be a list of texts"),
        ] {
            let error = called("task-add", given).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(called("diff", json!({"stat": "yes"})).unwrap_err().contains("true or false"));
    }
}
