//! The page of `ralph serve` in a real browser: each view on a live run, answers, hostile texts,
//! large graphs, the keyboard, narrow windows, accessibility, and what happens when processes die.

mod browser;

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Live, SETTINGS, TestProject, unavailable, until, wait_for};
use browser::{Browser, ENTER, ESCAPE, RIGHT, TAB};

/// The views, each with a text or an element that it has.
const VIEWS: [&str; 6] = ["#/now", "#/graph", "#/timeline", "#/task", "#/costs", "#/journal"];

/// A graph whose first four tasks can start at once.
const FOUR: &str = "tasks:\n\
                    - {id: a, title: The first, story: one}\n\
                    - {id: b, title: The second, story: one}\n\
                    - {id: c, title: The third}\n\
                    - {id: d, title: The fourth}\n\
                    - {id: e, title: The fifth, depends_on: [a, b]}\n\
                    - {id: f, title: The last, depends_on: [e]}\n";

/// A page that is served, and its link.
struct Served {
    server: Live,
    link: String,
}

impl Served {
    fn start(trial: &TestProject, port: &str) -> Served {
        Served::with(trial, &["serve", "--port", port])
    }

    fn with(trial: &TestProject, words: &[&str]) -> Served {
        let server = trial.start(words);
        until("the link is printed", || server.printed().contains("token="));
        let link = server.printed().lines().next().unwrap().to_owned();
        Served { server, link }
    }

    fn port(&self) -> &str {
        let (_, rest) = self.link.rsplit_once(':').unwrap();
        rest.split('/').next().unwrap()
    }
}

/// The project's page in a browser; `None` without chromedriver.
fn opened(trial: &TestProject) -> Option<(Browser, Served)> {
    let browser = Browser::start()?;
    let served = Served::start(trial, "0");
    browser.open(&served.link);
    browser.has(1, "#standing");
    Some((browser, served))
}

/// Expects that axe finds nothing on the page, if axe is there.
#[track_caller]
fn accessible(browser: &Browser, place: &str) {
    let axe = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/axe/axe.min.js");
    let Ok(axe) = fs::read_to_string(axe) else {
        unavailable("there is no target/axe/axe.min.js");
        return;
    };
    browser.script(&format!("if (!window.axe) {{ {axe} }}"));
    let check = "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', \
                 'best-practice'] }).then((found) => done(found.violations.map((it) => [it.id, \
                 it.nodes.map((node) => [node.html, node.failureSummary])])))";
    assert_eq!(browser.later(check), json!([]), "{place}");
}

/// Expects that the page is not wider than the window.
#[track_caller]
fn fits(browser: &Browser, place: &str) {
    let wide = "return document.documentElement.scrollWidth - innerWidth";
    let over = browser.script(wide).as_i64().unwrap();
    assert!(over <= 0, "{place} is {over} pixels too wide");
}

#[test]
#[ignore = "slow"]
fn every_view_shows_a_live_run() {
    let trial = TestProject::new().graph(FOUR).agent("gate");
    let run = trial.start(["run", "-j", "4"]);
    for id in ["a", "b", "c", "d"] {
        wait_for(&trial.sign(&format!("waiting-{id}")));
    }
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.shows("4 running");
    browser.view("#/graph");
    browser.has(6, ".box");
    assert_eq!(browser.count(".box.is-running"), 4);
    assert_eq!(browser.count(".edge.is-pending"), 3);
    browser.view("#/timeline");
    browser.has(4, ".attempt-bar.is-running");
    browser.view("#/task");
    browser.shows("The last");
    browser.view("#/task/a");
    browser.shows("An attempt works on it");
    browser.view("#/costs");
    browser.shows("By story");
    browser.view("#/journal");
    browser.shows("d started");
    browser.view("#/now");
    // From here on, nothing is loaded by hand.
    trial.leave("open");
    browser.shows("6 of 6 done");
    browser.has(1, ".standing.is-good");
    run.end(&trial).code(0);
    browser.has(1, "[aria-label='6 of 6 complete']");
    browser.view("#/timeline");
    browser.has(6, ".attempt-bar.is-done");
    browser.view("#/task/a");
    browser.click(".attempt .tabs button:nth-child(2)");
    browser.shows("+attempt 1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn a_question_is_answered_in_the_page() {
    let trial = TestProject::new()
        .graph("tasks: [{id: paint, title: Paint it}, {id: other}]\n")
        .agent("told");
    fs::write(trial.sign("do-paint-1"), "\"$RALPH\" ask 'Which colour?'\n").unwrap();
    fs::write(trial.sign("do-other"), "await open\nwork\n").unwrap();
    let run = trial.start_until(["run", "-j", "2"], "waiting-other");
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.shows("Which colour?");
    browser.type_into("#answer-paint", "the answer");
    // What comes meanwhile takes neither the text nor the focus.
    trial.run(["note", "--task", "other", "be quick"]);
    browser.view("#/journal");
    browser.shows("be quick");
    browser.view("#/now");
    browser.type_into("#answer-paint", "the answer");
    trial.run(["task-add", "Another one", "--id", "third", "--after", "other"]);
    browser.has(1, ".legend .sign.is-waiting");
    let typed = "const box = document.getElementById('answer-paint'); return [box.value, \
                 document.activeElement === box]";
    assert_eq!(browser.script(typed), json!(["the answer", true]));
    browser.press(" is blue");
    browser.click(".answer button");
    trial.wait_for_records(1, "completed");
    browser.has(0, ".need");
    let answered = trial.lines("answered");
    let answer = answered.iter().find(|line| line["task_id"] == "paint").unwrap();
    assert_eq!(answer["answer"], "the answer is blue");
    trial.leave("open");
    run.end(&trial).code(0);
    assert_eq!(trial.status("paint"), "complete");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn a_dead_runner_and_a_lost_server_are_told() {
    let trial = TestProject::new().graph(FOUR).agent("gate");
    let run = trial.start_until(["run"], "waiting-a");
    let Some((browser, served)) = opened(&trial) else { return };
    browser.shows("1 running");
    run.kill();
    browser.shows("Its process is gone");
    browser.has(0, ".sign-turns, .is-running");
    assert_eq!(browser.count(".is-good"), 0);
    let port = served.port().to_owned();
    served.server.kill();
    browser.shows("The server does not answer");
    let served = Served::start(&trial, &port);
    browser.shows("The server was restarted");
    assert!(browser.text().contains("Its process is gone"), "what was read stays");
    // The new link lets the browser in, and so the old page goes on.
    browser.script(&format!("open({})", json!(served.link)));
    browser.has(0, ".banner");
    browser.has(1, ".pill.is-live");
}

/// A text that does harm wherever it is taken for HTML, or where its characters change the order
/// of what follows.
const HOSTILE: &str =
    "<script>window.harm=1</script><img src=x onerror='window.harm=2'>\u{202e}txet\u{2066}";

#[test]
#[ignore = "slow"]
fn hostile_text_stays_text() {
    let graph = json!({ "tasks": [
        { "id": "evil", "title": format!("T {HOSTILE}"), "description": format!("D {HOSTILE}"),
          "story": format!("S {HOSTILE}"), "x-field": format!("X {HOSTILE}") },
        { "id": "asks", "title": "w".repeat(4000), "depends_on": ["evil"] },
    ] });
    let trial = TestProject::new().graph(&graph.to_string()).agent("told");
    let text = format!("O {HOSTILE}");
    fs::write(trial.sign("text"), &text).unwrap();
    let say = "cat \"$TRIAL_DIR/text\"\necho\nhead -c 10000000 /dev/zero | tr '\\0' 'w'\necho\n\
               cat \"$TRIAL_DIR/text\" >&2\n";
    let commit = "mkdir -p work\ncp \"$TRIAL_DIR/text\" 'work/<b>.txt'\ngit add work\ngit commit \
                  --quiet -F \"$TRIAL_DIR/text\"\nreport\n";
    fs::write(trial.sign("do-evil"), format!("{say}{commit}")).unwrap();
    fs::write(trial.sign("do-asks"), "\"$RALPH\" ask - < \"$TRIAL_DIR/text\"\n").unwrap();
    trial.run(["run"]).code(4);
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.size(375);
    let harmless = |place: &str| {
        let script = "return [window.harm ?? null, document.querySelectorAll('main script, main \
                      img').length, /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.textContent)]";
        assert_eq!(browser.script(script), json!([null, 0, false]), "{place}");
        fits(&browser, place);
    };
    browser.shows("O <script>");
    for view in VIEWS {
        browser.view(view);
        browser.shows("asks");
        harmless(view);
    }
    browser.view("#/task/evil");
    for shown in ["D <script>", "X <script>", "⟨U+202E⟩"] {
        browser.shows(shown);
    }
    harmless("the task");
    // The transcript has only the end of its 10 MB, in one line.
    browser.click(".parts button");
    browser.shows("wwwwwwwwww");
    harmless("the transcript");
    browser.click(".attempt .tabs button:nth-child(2)");
    browser.shows("+O <script>");
    harmless("the changes");
    browser.click(".attempt .tabs button:nth-child(3)");
    browser.click(".is-files button:last-child");
    browser.shows("Start");
    harmless("the files");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn a_thousand_tasks_are_usable_and_more_are_not_drawn() {
    let tasks = |count: usize| {
        let mut text = "tasks:\n".to_owned();
        for at in 0..count {
            let after = if at % 10 == 0 { String::new() } else { format!("t{}", at - 1) };
            let _ = writeln!(text, "- {{id: t{at}, depends_on: [{after}]}}");
        }
        text
    };
    let trial = TestProject::new().graph(&tasks(1000));
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.view("#/graph");
    browser.shows("1,000 tasks");
    browser.press("/t777");
    browser.has(1, ".box.is-found");
    browser.press(ENTER);
    browser.has(1, ".card a[href='#/task/t777']");
    browser.has(1, ".box.is-found:focus");
    // What is searched and near is in the address, and back undoes it.
    browser.has(1, ".map .map-view");
    browser.view("#/graph?around=t775&levels=1");
    browser.has(3, ".box");
    browser.click("[aria-label='One level more']");
    browser.has(5, ".box");
    browser.script("history.back()");
    browser.has(3, ".box");
    browser.view("#/graph?around=none");
    browser.shows("the graph has no task");
    drop(browser.complaints());
    browser.view("#/task");
    browser.shows("and 700 more");
    browser.type_into("#task-filter", "t99");
    browser.has(11, "#view .row");
    browser.view("#/graph");
    trial.write("task-graph.yaml", &tasks(2000));
    browser.shows("2,000 tasks are too many to draw");
    browser.view("#/graph?around=t1775&levels=1");
    browser.has(3, ".box");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn the_keyboard_is_enough() {
    let trial = TestProject::new().graph(FOUR).agent("commit");
    trial.run(["run"]);
    let Some((browser, _served)) = opened(&trial) else { return };
    let focus = || browser.script("return document.activeElement.textContent");
    browser.press(TAB);
    assert_eq!(focus(), "Skip to the content");
    browser.press("2");
    browser.has(6, ".box");
    browser.script("document.querySelector('.box[tabindex=\"0\"]').focus()");
    browser.press(RIGHT);
    assert_eq!(browser.script("return document.activeElement.dataset.id"), "e");
    browser.press(ENTER);
    browser.shows("The fifth");
    browser.shows("Attempt 1");
    browser.press("?");
    browser.shows("go to a view");
    browser.press(ESCAPE);
    browser.has(0, "dialog[open]");
    browser.press("5/");
    browser.has(1, "dialog[open] #search");
    browser.press("last");
    browser.has(1, ".found a");
    browser.press(ENTER);
    browser.has(0, "dialog[open]");
    browser.shows("The last");
    assert_eq!(browser.script("return location.hash"), "#/task/f");
    browser.press("t");
    assert_eq!(browser.script("return document.documentElement.dataset.theme"), "dark");
    browser.press("14");
    browser.shows("The last");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn a_transcript_grows_while_its_attempt_runs() {
    let trial = TestProject::new().graph("tasks: [{id: a}]\n").agent("told");
    let script = "echo 'the first line'\nawait more\necho 'the second line'\nawait open\nwork\n";
    fs::write(trial.sign("do-a"), script).unwrap();
    let run = trial.start_until(["run"], "waiting-a");
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.view("#/task/a");
    browser.shows("the first line");
    trial.leave("more");
    browser.shows("the second line");
    trial.leave("open");
    browser.has(1, ".attempt .state.is-done");
    assert_eq!(browser.text().matches("the first line").count(), 1);
    run.end(&trial).code(0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What an agent prints that claims what its tests do not show.
const CLAIMS: &str = r##"
says() { printf '{"type":"assistant","timestamp":"2026-11-20T20:55:%02dZ","message":{"id":"m","content":[%s],"usage":{"input_tokens":1200}}}\n' "$1" "$2"; }
did() { printf '{"type":"user","timestamp":"2026-11-20T20:55:%02dZ","message":{"content":[{"type":"tool_result","tool_use_id":"%s","content":"%s","is_error":%s}]}}\n' "$1" "$2" "$3" "$4"; }
says 1 '{"type":"thinking","thinking":"a secret thought"}'
says 2 '{"type":"text","text":"# Plan\n\n- **first** <b>\n\n```\ncode\n```"}'
says 3 '{"type":"tool_use","id":"t1","name":"TodoWrite","input":{"todos":[{"content":"Write it","status":"in_progress"}]}}'
did 3 t1 ok false
says 4 "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"Edit\",\"input\":{\"file_path\":\"$PWD/a.py\",\"old_string\":\"one\ntwo\",\"new_string\":\"one\nthree\"}}"
did 5 t2 ok false
says 6 '{"type":"tool_use","id":"t3","name":"Bash","input":{"command":"make test"}}'
did 9 t3 "1 failed, 13 passed" true
says 10 '{"type":"text","text":"All good: 14 passed."}'
"##;

#[test]
#[ignore = "slow"]
fn a_claim_stands_below_the_failed_test_that_it_denies() {
    let agent = crate::support::agent("told");
    let settings = format!("{SETTINGS}agent: {{command: [{agent}], output: claude-json}}\n");
    let trial =
        TestProject::new().graph("tasks: [{id: a}]\n").file(".ralph/config.yaml", &settings);
    fs::write(trial.sign("do-a"), format!("{CLAIMS}await open\nwork\n")).unwrap();
    let run = trial.start_until(["run"], "waiting-a");
    let Some((browser, _served)) = opened(&trial) else { return };
    // What runs says what it does and has used so far.
    browser.shows("All good: 14 passed.");
    browser.shows("1.2k tokens");
    browser.view("#/task/a");
    browser.has(1, ".piece.is-uses.is-fails[open]");
    let order = "const text = document.querySelector('.transcript').innerText; return \
                 text.indexOf('1 failed, 13 passed') < text.indexOf('All good: 14 passed')";
    assert_eq!(browser.script(order), true);
    assert!(!browser.text().contains("a secret thought"), "thoughts are folded");
    browser.has(1, ".patch .old");
    assert_eq!(
        browser.script("return document.querySelector('.patch .new').innerText.trim()"),
        "+three"
    );
    browser.has(1, ".todo .is-in_progress");
    browser.has(1, ".md-list b");
    let text = browser.script("return document.querySelector('.transcript').innerText");
    let text = text.as_str().unwrap();
    assert!(text.contains("Edit a.py") && text.contains("<b>") && text.contains("3s"), "{text}");
    for scheme in ["light", "dark"] {
        browser.prefers(scheme);
        accessible(&browser, scheme);
    }
    browser.size(375);
    fits(&browser, "the transcript");
    browser.size(1280);
    // The switch is in the address, and back turns it off.
    browser.click(".parts button");
    browser.has(1, ".piece");
    assert_eq!(browser.script("return location.hash"), "#/task/a?errors=1");
    browser.script("history.back()");
    browser.has(1, ".piece.is-thinks");
    trial.leave("open");
    run.end(&trial).code(0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn landed_work_is_reviewed_in_the_page() {
    let trial =
        TestProject::new().graph("tasks: [{id: a, title: The first}, {id: b}]\n").agent("commit");
    trial.run(["run"]).code(0);
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.shows("2 of 2 done");
    browser.click("h1 a");
    browser.shows("2 to review");
    browser.has_any(".diff-file .new");
    browser.shows("ralph take-back a");
    browser.click("[aria-label='Accept a']");
    browser.shows("1 to review");
    browser.shows("ralph take-back b");
    browser.click(".is-main + button");
    browser.type_into("#dialog-text", "read it");
    browser.click("dialog .is-main");
    browser.shows("Nothing is left to review");
    let notes: Vec<Value> =
        trial.lines("reviewed").iter().map(|line| line["note"].clone()).collect();
    assert_eq!(notes, [Value::Null, json!("read it")]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn the_headline_says_what_is_true_now() {
    let trial = night();
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.shows("1 of 5 done · 3 need you");
    browser.shows("next: answer asks");
    let name = trial.root().file_name().unwrap().to_string_lossy().into_owned();
    let title = || browser.script("return document.title");
    assert_eq!(title(), format!("(3) {name}"));
    browser.type_into("#answer-asks", "green");
    browser.click(".answer button");
    browser.shows("1 can run again");
    // An error of an action stands in its dialog.
    browser.click("[aria-label='Unblock held']");
    browser.click("dialog .is-danger");
    browser.shows("2 can run again");
    browser.has(1, "#icon[href^='data:image/svg']");
    browser.view("#/timeline?run=99");
    browser.shows("no run 99");
    assert_eq!(browser.complaints().len(), 1, "the browser names the answer 404");
}

#[test]
#[ignore = "slow"]
fn a_page_that_only_shows_has_the_commands_instead() {
    let trial = night();
    let Some(browser) = Browser::start() else { return };
    let served = Served::with(
        &trial,
        &["serve", "--port", "0", "--allow-remote", "0.0.0.0", "--host", "127.0.0.1"],
    );
    browser.open(&served.link);
    browser.shows("Which colour?");
    let answer = "[aria-label^='Copy ralph answer asks']";
    assert_eq!(browser.count(answer), 1);
    let acting = ".answer, .hero button, .need-foot > button";
    assert_eq!(browser.count(acting), 0);
    browser.view("#/task/bad");
    browser.shows("It fails");
    assert_eq!(browser.count(".view-head button"), 0);
}

/// A repository with a complete, a parked, a failed and a waiting task, and one that asks.
fn night() -> TestProject {
    let trial = TestProject::new()
        .graph(
            "tasks:\n- {id: good, title: It works, story: one, description: A line}\n\
             - {id: bad, title: It fails, verify: [\"echo broken; false\"], max_attempts: 1}\n\
             - {id: asks, title: It asks, depends_on: [good]}\n\
             - {id: held, title: It is held, status: blocked}\n\
             - {id: gone, title: It is off, status: cancelled}\n\
             - {id: later, title: It waits, depends_on: [asks, bad]}\n",
        )
        .agent("told");
    fs::write(trial.sign("do-asks"), "\"$RALPH\" ask 'Which colour?'\n").unwrap();
    trial.run(["run"]).code(3);
    trial
}

#[test]
#[ignore = "slow"]
fn the_views_are_accessible_and_fit_a_narrow_window() {
    let trial = night();
    let Some((browser, _served)) = opened(&trial) else { return };
    for view in VIEWS.into_iter().chain(["#/task/bad", "#/task/asks", "#/review"]) {
        browser.view(view);
        browser.shows(if view == "#/review" { "take-back good" } else { "asks" });
        for scheme in ["light", "dark"] {
            browser.prefers(scheme);
            accessible(&browser, &format!("{view}, {scheme}"));
        }
        browser.size(375);
        fits(&browser, view);
        browser.size(1280);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[ignore = "slow"]
fn a_run_that_completed_nothing_is_never_green() {
    let trial = TestProject::new().graph("tasks: [{id: a, status: complete}]\n").agent("commit");
    trial.run(["run"]).code(0);
    let Some((browser, _served)) = opened(&trial) else { return };
    browser.shows("nothing was completed");
    assert_eq!(browser.count("#head .is-good, #head .is-done, .hero.is-good"), 0);
}

#[test]
#[ignore = "slow"]
fn what_is_not_known_is_no_advice() {
    let trial = night();
    let old = trial.root().join("old.html");
    trial.run(["run", "--once"]).code(3);
    trial.run(["report", "--run", "2", "old.html"]);
    let Some((browser, served)) = opened(&trial) else { return };
    browser.has(1, ".hero .progress");
    browser.has(0, ".unknown");
    trial.write("task-graph.yaml", "tasks: [");
    browser.has(1, ".unknown.banner");
    browser.shows("Not known: the states of the tasks");
    assert_eq!(browser.count(".steps .faint"), 0);
    drop(served);
    // The counts of today are not those of that night.
    browser.open(&format!("file://{}", old.display()));
    browser.shows("Not known: the states of other tasks");
    assert_eq!(browser.count(".progress, .unknown.banner, .steps .faint"), 0);
}

#[test]
#[ignore = "slow"]
fn a_report_in_one_file_needs_no_server() {
    let trial = night();
    let Some((browser, served)) = opened(&trial) else { return };
    let read = "const data = {}; const all = ['now', 'graph', 'timeline', 'costs', 'journal', 'page', \
                'tasks/bad', 'attempts/bad.1', 'attempts/bad.1/transcript']; Promise.all(all.map(async \
                (it) => { data[it] = await (await fetch('/api/' + it + (it === 'graph' ? '?draw=1' : ''))).json(); })).then(() => done(data))";
    let mut data: Value = browser.later(read);
    data["page"]["made_at"] = json!("2026-01-02T03:04:05Z");
    data["now"]["why"] = json!("</script><script>window.harm=1</script>");
    drop(served);
    let path = trial.dir().join("report.html");
    fs::write(&path, ralph::report::page::in_one_file(&data.to_string()).unwrap()).unwrap();
    browser.open(&format!("file://{}", path.display()));
    // Those of the page before, whose server is gone.
    drop(browser.complaints());
    browser.shows("report made ");
    browser.shows("</script><script>");
    for view in VIEWS {
        browser.view(view);
        browser.shows("bad");
    }
    browser.size(375);
    fits(&browser, "a report");
    browser.view("#/task/bad");
    browser.shows("broken");
    browser.view("#/task/good");
    browser.shows("this report does not contain it");
    let asked = "return [performance.getEntriesByType('resource').length, window.harm ?? null, \
                 document.querySelectorAll('.answer').length]";
    assert_eq!(browser.script(asked), json!([0, null, 0]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
