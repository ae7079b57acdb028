//! No secret of the environment gets into `logs/` or the state folder, whichever process prints it.

use std::fs;

use ralph::core::{dice::Dice, redact::MARK};

use crate::support::{SETTINGS, TestProject, until, wait_for};

/// Pseudo-random secrets, the same in every run.
struct SecretMaker(Dice);

impl SecretMaker {
    fn roll(&mut self, sides: usize) -> usize {
        self.0.below(sides)
    }

    fn word(&mut self, of: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(of[self.roll(of.len())])).collect()
    }
}

const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const ODD: &[u8] = b"abcXYZ019 \"\\/+&%='\t{}!";

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap().trim_matches('"').to_owned()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    assert!(bytes.len().is_multiple_of(3));
    let group = |three: &[u8]| {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(DIGITS[bits >> shift & 63]))
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// The values of secret variables, which programs print in many spellings.
fn values(dice: &mut SecretMaker) -> Vec<String> {
    (0..24)
        .map(|at| match at % 2 {
            0 => format!("aB3{}", dice.word(ALNUM, 9 + at / 6 * 3)),
            _ => format!("x{}.y", dice.word(ODD, 15 + at)),
        })
        .collect()
}

/// A text with 5,000 secrets in it, and the same without them; and every secret by itself.
fn planted(dice: &mut SecretMaker, values: &[String]) -> (String, String, Vec<String>) {
    let (mut text, mut clean, mut secrets) = (String::new(), String::new(), Vec::new());
    for _ in 0..5000 {
        let value = &values[dice.roll(values.len())];
        let shape = dice.word(ALNUM, 36);
        let secret = match dice.roll(7) {
            0 => value.clone(),
            1 => json(value),
            2 => json(&json(value)),
            3 if value.len().is_multiple_of(3) => base64(value.as_bytes()),
            3 | 4 => format!("ghp_aB3{shape}"),
            5 => format!("sk-ant-api03-aB3-{shape}_{shape}"),
            _ => format!("eyJ{shape}.eyJ{shape}.{shape}-aB3"),
        };
        let length = 1 + dice.roll(50);
        let filler = dice.word(b"abc de.\n", length);
        let space = [" ", "\n", "\":\"", "("][dice.roll(4)];
        for (to, word) in [(&mut text, secret.as_str()), (&mut clean, MARK)] {
            to.extend([&filler, space, word, space]);
        }
        secrets.push(secret);
    }
    secrets.sort_unstable();
    secrets.dedup();
    (text + "\n", clean + "\n", secrets)
}

/// Every file that `ralph` writes by itself, except `task-graph.yaml`.
fn written(trial: &TestProject) -> Vec<(String, String)> {
    let all = trial.everything().into_iter();
    let texts = all.map(|(path, (_, bytes))| {
        let path = path.strip_prefix(trial.root()).unwrap().display().to_string();
        (path, String::from_utf8_lossy(&bytes).into_owned())
    });
    texts.filter(|(path, _)| path.starts_with("logs/") || path.starts_with(".git/ralph/")).collect()
}

#[test]
fn of_five_thousand_secrets_none_is_written() {
    let mut dice = SecretMaker(Dice(11));
    let mut values = values(&mut dice);
    let key = &values[0].clone();
    let (text, clean, secrets) = planted(&mut dice, &values);
    let settings =
        format!("{SETTINGS}verify: 'cat \"$TRIAL_DIR/said\"; echo \"$MODEL_API_KEY\"'\n");
    let graph = "defaults: {max_attempts: 1}\ntasks: [{id: fail}, {id: leave}, {id: ask}]\n";
    let mut trial = TestProject::new()
        .graph(graph)
        .file(".ralph/config.yaml", &settings)
        .file(
            "docs/knowledge/learnings.md",
            &format!("- Log in with {key}, ghp_{}\n", "a1".repeat(20)),
        )
        .agent("blab")
        .env("MODEL_API_KEY", key);
    for (at, value) in values.iter().enumerate() {
        trial = trial.env(&format!("S{at}_TOKEN"), value);
    }
    fs::write(trial.sign("said"), &text).unwrap();
    trial.hook("pre-commit", "echo \"no commit with $MODEL_API_KEY\"; exit 1");

    trial.run(["run", "-q"]).code(3);
    trial.run(["task-block", "ask", "--reason", &format!("{key} is wrong")]);

    let last = format!("{clean}cannot log in with {MARK}\n");
    assert!(trial.read("logs/attempts/fail/1/stdout") == last);
    for task in ["fail", "leave", "ask"] {
        assert!(trial.read(&format!("logs/attempts/{task}/1/stderr")) == clean, "{task}");
        let prompt = trial.read(&format!("logs/attempts/{task}/1/prompt.md"));
        // Text that looks like a key may be intended.
        assert!(prompt.contains(&format!("Log in with {MARK}, ghp_a1a1")), "{prompt}");
    }
    assert_eq!(trial.read("logs/attempts/leave/1/commit.log"), format!("no commit with {MARK}\n"));

    let mark = |line: &serde_json::Value, field: &str| {
        assert!(line[field].as_str().is_some_and(|text| text.contains(MARK)), "{field} in {line}");
    };
    let failed = trial.lines("failed");
    mark(&failed[0], "last_line");
    mark(&failed[1], "why");
    assert_eq!(failed[1]["leftovers"], serde_json::json!([format!("left-{MARK}.txt")]));
    mark(&trial.lines("needs_input")[0], "question");
    mark(trial.lines("status_changed").last().unwrap(), "reason");

    // In the checkout, work is verified before it is committed.
    trial.run(["task-reset", "leave"]);
    trial.run(["run", "-q", "--in-place", "--task", "leave"]).code(3);
    let verify = trial.read("logs/attempts/leave/2/verify-1.log");
    assert!(verify == format!("{clean}{MARK}\n"), "{}", verify.len());

    values.extend(secrets);
    let files = written(&trial);
    assert!(files.len() > 12, "{files:?}");
    for (path, text) in files {
        // Files that were compared in full are already checked.
        if text.len() < 100_000 {
            let leaked = values.iter().filter(|secret| text.contains(*secret)).count();
            assert_eq!(leaked, 0, "{path}");
        }
    }
}

#[test]
fn the_beginning_of_a_line_is_seen_and_that_of_a_secret_is_not() {
    let script = "cat >/dev/null; printf 'at work on s3cr'; \
                  until [ -e \"$TRIAL_DIR/open\" ]; do sleep 0.02; done";
    let trial = TestProject::new()
        .graph("tasks: [{id: a, max_attempts: 1}]\n")
        .command(["sh", "-c", script])
        .env("MODEL_API_KEY", "s3cr3t-phrase");
    let run = trial.start(["run", "-q"]);
    let stdout = trial.root().join("logs/attempts/a/1/stdout");
    let seen = || fs::read_to_string(&stdout).unwrap_or_default();
    wait_for(&stdout);
    until("what may be shown is", || !seen().is_empty());
    assert_eq!(seen(), "at work on ");
    trial.leave("open");
    run.end(&trial).code(3);
    assert_eq!(seen(), "at work on s3cr");
}

#[test]
fn a_command_line_that_had_a_secret_in_it_is_not_begun_again() {
    let script = "cat >/dev/null; : s3cr3t-phrase";
    let settings = format!("{SETTINGS}hooks: {{after_attempt: '\"$RALPH\" pause'}}\n");
    let trial = TestProject::new()
        .file(".ralph/config.yaml", &settings)
        .graph("tasks: [{id: a}]\n")
        .command(["sh", "-c", script])
        .env("MODEL_API_KEY", "s3cr3t-phrase");
    trial.run(["run", "-q"]).code(4);
    let agent = trial.lines("loop_started")[0]["agent"].to_string();
    assert!(agent.contains(MARK) && !agent.contains("s3cr3t"), "{agent}");
    trial.run(["resume"]).code(69).stderr(
        "ralph: error: the agent command of the last run contained a secret, which is not recorded; continue with `ralph run -- AGENT`\n",
    );
}

#[test]
fn what_the_settings_give_to_an_agent_is_in_no_record_of_it() {
    let script = "cat >/dev/null; cp \"$TRIAL_DIR/repo/.git/ralph/attempts/a.1.json\" \"$TRIAL_DIR/record\"; \
                  echo \"$LENT_API_KEY\"; echo \"$1\"";
    let settings = format!(
        "{SETTINGS}agent:\n  command: [sh, -c, '{script}', sh, s3cr3t-phrase]\n  env: \
         {{LENT_API_KEY: another-phrase, SOME_LEVEL: loud}}\n"
    );
    let trial = TestProject::new()
        .graph("tasks: [{id: a, max_attempts: 1}]\n")
        .file(".ralph/config.yaml", &settings)
        .env("MODEL_API_KEY", "s3cr3t-phrase");
    trial.run(["run", "-q"]).code(3);
    assert_eq!(trial.read("logs/attempts/a/1/stdout"), format!("{MARK}\n{MARK}\n"));
    let record = fs::read_to_string(trial.sign("record")).unwrap();
    assert!(record.contains("loud") && record.contains(MARK), "{record}");
    let journal = trial.read("logs/ralph.jsonl");
    for secret in ["s3cr3t-phrase", "another-phrase"] {
        assert!(!record.contains(secret) && !journal.contains(secret), "{record}{journal}");
    }
}
