//! The setting `schedule`: when `ralph schedule` starts runs, and whether requests may also start
//! them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::Value;

use crate::core::{
    time_zone::{self, Zone},
    timetable::Timetable,
};

/// The schedule of `ralph schedule`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleConfig {
    /// The value as written.
    given: Value,
    /// The times of the runs.
    pub times: Timetable,
    /// The time zone; `None` for that of the machine.
    pub zone: Option<Zone>,
    /// The arguments for `ralph run`.
    pub run: Vec<String>,
    /// The HTTP trigger, if requests may also start a run.
    pub trigger: Option<TriggerConfig>,
}

/// The HTTP trigger: each signed request starts a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The location of the secret that signs requests.
    pub secret: Secret,
}

/// The location of a secret, which is never in the settings themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// An environment variable.
    Variable(String),
    /// A file that only its owner may read.
    File(PathBuf),
}

/// The default port.
const PORT: u16 = 8377;

/// The schema of a schedule.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "schedule")]
#[expect(dead_code, reason = "this is the schema; values are parsed separately for better errors")]
pub(super) enum WrittenSchedule {
    One(String),
    Several(Vec<String>),
    Whole(Whole),
}

/// When `ralph schedule` starts a run, with all options.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "schedule_whole")]
pub(super) struct Whole {
    /// A cron expression, or a list of them.
    #[schemars(with = "Option<Expressions>")]
    cron: Option<Value>,
    /// The time zone, such as `Europe/Berlin`. The default is the zone of the machine.
    time_zone: Option<String>,
    /// Flags for `ralph run`, one word per item.
    #[serde(default)]
    #[schemars(with = "Vec<ScheduleWord>")]
    run: Vec<Value>,
    /// Signed HTTP requests that also start a run.
    trigger: Option<WrittenTrigger>,
}

/// A word of a command line, which may look like a number.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "schedule_word")]
#[expect(dead_code, reason = "for the schema")]
enum ScheduleWord {
    Text(String),
    Number(f64),
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "schedule_cron")]
#[expect(dead_code, reason = "for the schema")]
enum Expressions {
    One(String),
    Several(Vec<String>),
}

/// Signed HTTP requests.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "schedule_trigger")]
struct WrittenTrigger {
    /// Address and port. The default accepts requests from this machine only.
    #[schemars(with = "Option<String>")]
    listen: Option<SocketAddr>,
    /// The variable that holds the secret.
    secret_env: Option<String>,
    /// The file that holds the secret; it must be readable by its owner only.
    secret_file: Option<PathBuf>,
}

impl ScheduleConfig {
    fn read(given: Value) -> Result<ScheduleConfig, String> {
        let whole = match &given {
            Value::Object(_) => {
                serde_json::from_value(given.clone()).map_err(|error| error.to_string())?
            }
            cron => {
                Whole { cron: Some(cron.clone()), time_zone: None, run: Vec::new(), trigger: None }
            }
        };
        let cron = match whole.cron {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(list) => serde_json::from_value::<Vec<String>>(list).map_err(|_| {
                "write a cron expression such as \"0 */4 * * *\", a list of them, or a mapping with \
                 `cron`"
                    .to_owned()
            })?,
        };
        if cron.is_empty() && whole.trigger.is_none() {
            return Err("it needs `cron`, `trigger` or both".to_owned());
        }
        Ok(ScheduleConfig {
            times: Timetable::new(&cron)?,
            zone: whole.time_zone.as_deref().map(time_zone::named).transpose()?,
            run: whole.run.into_iter().map(word).collect::<Result<_, _>>()?,
            trigger: whole.trigger.map(TriggerConfig::read).transpose()?,
            given,
        })
    }
}

fn word(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("`run` must be a list of words; `{other}` is not a word")),
    }
}

impl TriggerConfig {
    fn read(written: WrittenTrigger) -> Result<TriggerConfig, String> {
        let secret = match (written.secret_env, written.secret_file) {
            (Some(name), None) => Secret::Variable(name),
            (None, Some(path)) => Secret::File(path),
            _ => {
                return Err("`trigger` needs `secret_env`, the name of a variable, or \
                            `secret_file`, a path"
                    .to_owned());
            }
        };
        let listen = written.listen.unwrap_or((Ipv4Addr::LOCALHOST, PORT).into());
        Ok(TriggerConfig { listen, secret })
    }
}

impl<'de> Deserialize<'de> for ScheduleConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ScheduleConfig, D::Error> {
        ScheduleConfig::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for ScheduleConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.given.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_is_an_expression_several_or_a_mapping() {
        let read = |value| ScheduleConfig::read(value).unwrap();
        assert_eq!(read(json!("@daily")).times.expressions(), ["@daily"]);
        assert_eq!(read(json!(["@daily", "0 12 * * SAT"])).times.expressions().len(), 2);
        let whole = read(json!({
            "cron": "0 */4 * * *", "time_zone": "Europe/Berlin", "run": ["--max-cost", 5],
            "trigger": {"listen": "[::1]:80", "secret_env": "HOOK_SECRET"}
        }));
        assert_eq!(whole.zone.unwrap().name(), "Europe/Berlin");
        assert_eq!(whole.run, ["--max-cost", "5"]);
        let trigger = whole.trigger.unwrap();
        assert_eq!(trigger.listen.to_string(), "[::1]:80");
        assert_eq!(trigger.secret, Secret::Variable("HOOK_SECRET".to_owned()));
        let only = read(json!({"trigger": {"secret_file": "/etc/secret"}}));
        assert_eq!(only.trigger.unwrap().listen.to_string(), "127.0.0.1:8377");
        assert!(only.times.expressions().is_empty());
    }

    #[test]
    fn invalid_schedules_are_rejected() {
        for (value, part) in [
            (json!(4), "write a cron expression"),
            (json!([]), "needs `cron`, `trigger` or both"),
            (json!({}), "needs `cron`, `trigger` or both"),
            (json!("0 25 * * *"), "is not a cron expression"),
            (json!({"crn": "@daily"}), "unknown field `crn`, expected one of `cron`"),
            (json!({"cron": "@daily", "time_zone": "Berlin"}), "unknown time zone `Berlin`"),
            (json!({"cron": "@daily", "run": ["-q", true]}), "`true` is not a word"),
            (json!({"trigger": {}}), "needs `secret_env`"),
            (json!({"trigger": {"secret": "x"}}), "unknown field `secret`, expected one of"),
            (json!({"trigger": {"listen": "8377", "secret_env": "X"}}), "invalid socket address"),
        ] {
            let error = ScheduleConfig::read(value).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
