//! Images of the graph and the layout that they share with the page: `ralph graph --format svg` and
//! `json --fold`, and `/api/graph`.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{TestProject, is_page};

/// The graphs of real projects, if they are available.
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/graphs");

const MIXED: &str = "tasks:
  - {id: read, title: Read the file, status: complete, story: input}
  - {id: parse, title: \"Parse <script>alert('1')</script> & \\\"all\\\"\\e]0;x\\a \\u202egnp.\", depends_on: [read], story: input}
  - {id: check, title: 日本語の題名はとても長いので切り捨てられるはずです本当に, depends_on: [parse]}
  - {id: print, title: Print the tree, depends_on: [parse], milestone: M1}
  - {id: held, title: Ask first, status: blocked, depends_on: [read]}
  - {id: all, title: All of it, depends_on: [check, print, parse, held], milestone: M1}
";

/// The elements of an XML document, by name. Anything that is not well-formed fails the test.
fn elements(text: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        characters(&rest[..at], open.last().is_some_and(|name| *name == "style"));
        assert!(!open.is_empty() || rest[..at].trim().is_empty(), "text outside the document");
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "the element that is open");
        } else {
            let is_whole = tag.ends_with('/');
            let tag = tag.trim_end_matches('/');
            let name = tag.split(' ').next().unwrap();
            assert!(
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()),
                "{tag}"
            );
            let mut values = tag[name.len()..].split('"');
            while let (Some(key), Some(value)) = (values.next(), values.next()) {
                let key = key.strip_prefix(' ').and_then(|key| key.strip_suffix('='));
                assert!(key.is_some_and(|key| !key.contains(' ')), "an attribute in <{tag}>");
                characters(value, false);
            }
            *found.entry(name.to_owned()).or_default() += 1;
            if !is_whole {
                open.push(name);
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "it ends: {open:?}");
    found
}

/// Checks text of an XML document.
fn characters(text: &str, is_style: bool) {
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "control characters: {text:?}");
    let reorders = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!text.contains(reorders) && !text.contains(['\u{fffe}', '\u{ffff}']), "{text:?}");
    assert!(is_style || !text.contains('>'), "{text:?}");
    for (at, _) in text.match_indices('&') {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        assert!(known.iter().any(|it| text[at..].starts_with(it)), "{text:?}");
    }
}

fn svg(trial: &TestProject, words: &[&str]) -> String {
    let words: Vec<&str> = ["graph", "--format", "svg"].iter().chain(words).copied().collect();
    let svg = trial.run(&words[..]).out();
    elements(&svg);
    svg
}

/// Checks a picture with its layout: each task is in one box, boxes do not overlap, and lines begin
/// and end at their boxes.
fn check(picture: &Value) {
    let boxes = picture["layout"]["boxes"].as_array().unwrap();
    let mut drawn: Vec<&str> = Vec::new();
    let mut places: BTreeMap<&str, [f64; 4]> = BTreeMap::new();
    for one in boxes {
        let number = |name: &str| one[name].as_f64().unwrap();
        let [x, y, width, height] = ["x", "y", "width", "height"].map(number);
        let place = [x, y, x + width, y + height];
        for (id, other) in &places {
            let is_apart =
                (0..2).any(|at| place[at] >= other[at + 2] || other[at] >= place[at + 2]);
            assert!(is_apart, "{id} and {one} overlap");
        }
        assert!(place[2] <= picture["layout"]["width"].as_f64().unwrap() + 0.2);
        assert!(places.insert(one["id"].as_str().unwrap(), place).is_none(), "{one}");
        drawn.extend(one["tasks"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()));
        let counts = one["counts"].as_object().unwrap().values();
        let counted: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(counted, one["tasks"].as_array().unwrap().len() as u64, "{one}");
    }
    let nodes = picture["nodes"].as_array().unwrap();
    let mut tasks: Vec<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    tasks.sort_unstable();
    drawn.sort_unstable();
    assert_eq!(drawn, tasks, "each task is in one box");
    for line in picture["layout"]["lines"].as_array().unwrap() {
        let points = line["points"].as_array().unwrap();
        for (end, point) in [("from", points.first()), ("to", points.last())] {
            let [left, top, right, bottom] = places[line[end].as_str().unwrap()];
            let at = |axis: usize| point.unwrap()[axis].as_f64().unwrap();
            let is_there = (at(0) - left).abs().min((at(0) - right).abs()) < 0.2
                && (top - 0.2..bottom + 0.2).contains(&at(1));
            assert!(is_there, "{line} does not meet its boxes");
        }
    }
}

fn folded(trial: &TestProject, fold: &str) -> Value {
    let picture = trial.run(["graph", "--format", "json", "--fold", fold]).json();
    check(&picture);
    picture
}

#[test]
fn an_image_is_safe_whatever_titles_contain() {
    let trial = TestProject::new().graph(MIXED);
    let image = svg(&trial, &[]);
    let found = elements(&image);
    assert!(!found.contains_key("script") && !image.contains("href"), "{found:?}");
    assert!(image.contains("\\u{1b}") && image.contains("\\u{202e}"), "{image}");
    assert!(image.contains("prefers-color-scheme:dark"));
    assert!(image.contains("本当に (waiting)</title>") && !image.contains("本当に</text>"));
    assert_eq!(image.matches("class=\"edge dead\"").count(), 1);
    assert_eq!(image, svg(&trial, &[]), "the same graph, the same bytes");
    assert_eq!(image.matches("class=\"box ").count(), 6);
    let folded = svg(&trial, &["--fold", "story,milestone"]);
    assert!(folded.contains(">input (2)<") && folded.contains(">M1 (2)<"), "{folded}");
    trial.run(["graph", "--fold", "story"]).code(64).stderr_has("--format svg");
    trial.run(["graph", "--format", "svg", "--fold", "stroy"]).code(64).stderr_has("`stroy`");
}

#[test]
fn programs_get_the_layout_of_the_image() {
    let trial = TestProject::new().graph(MIXED);
    let plain = trial.run(["graph", "--format", "json"]).json();
    assert_eq!(plain.get("layout"), None, "only who asks for it");
    let picture = folded(&trial, "none");
    let layout = &picture["layout"];
    assert_eq!(layout["implied"], 1);
    let dead: Vec<&Value> =
        layout["lines"].as_array().unwrap().iter().filter(|it| it["state"] == "dead").collect();
    assert_eq!((dead.len(), &dead[0]["from"]), (1, &"held".into()));
    let picture = folded(&trial, "story,milestone");
    let input = picture["layout"]["boxes"].as_array().unwrap();
    let input = input.iter().find(|one| one["id"] == "story:input").unwrap();
    assert_eq!((&input["kind"], &input["mark"]), (&"group".into(), &"ready".into()));
    assert_eq!((&input["counts"]["done"], &input["counts"]["ready"]), (&1.into(), &1.into()));
}

#[test]
fn large_graphs_are_folded_and_say_so() {
    let task = |n: usize| match n {
        0..100 => format!("  - {{id: t{n}, status: complete}}\n"),
        _ => format!(
            "  - {{id: t{n}, depends_on: [t{}, t{}]}}\n",
            n - 100,
            n / 100 * 100 - 1 - n % 97
        ),
    };
    let graph: String = (0..3_000).map(task).collect();
    let trial = TestProject::new().graph(&format!("tasks:\n{graph}"));
    let picture = folded(&trial, "none");
    let why = picture["layout"]["folded"].as_str().unwrap();
    assert!(why.contains("levels and parts"), "{why}");
    assert!(picture["layout"]["boxes"].as_array().unwrap().len() <= 300);
    let size = picture.to_string().len();
    assert!(size <= 3_000_000, "{size} bytes");
    assert!(svg(&trial, &[]).contains("folded: "));
}

#[test]
fn real_graphs_have_images() {
    let Ok(entries) = fs::read_dir(REAL) else {
        println!("skipped: {REAL} is not here");
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if !path.to_string_lossy().ends_with("task-graph.yaml") {
            continue;
        }
        let trial = TestProject::new().graph(&fs::read_to_string(&path).unwrap());
        for fold in ["none", "chains", "complete,chains", "story,milestone,complete,chains"] {
            folded(&trial, fold);
            svg(&trial, &["--fold", fold]);
        }
    }
}

/// `RALPH_WRITE=1` rewrites it.
#[test]
fn the_readme_shows_the_graph_of_the_demo() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/demo.yaml");
    let mut graph = fs::read_to_string(demo).unwrap();
    for (id, status) in [
        ("outline", "complete"),
        ("heron", "complete"),
        ("swift", "complete"),
        ("style", "blocked"),
    ] {
        let line = format!("  - id: {id}\n");
        assert!(graph.contains(&line), "{id}");
        graph = graph.replace(&line, &format!("{line}    status: {status}\n"));
    }
    is_page("docs/pictures/graph.svg", &svg(&TestProject::new().graph(&graph), &[]));
}

/// The head and the body of the answer to a request.
fn get(address: &str, path: &str, cookie: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{cookie}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn the_page_gets_the_layout() {
    let trial = TestProject::new().graph(MIXED);
    let page = trial.start(["serve", "--port", "0"]);
    crate::support::until("it prints its link", || page.printed().contains('\n'));
    let link = page.printed();
    let link = link.trim().strip_prefix("http://").unwrap();
    let (address, path) = link.split_once('/').unwrap();
    let (head, _) = get(address, &format!("/{path}"), "");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let (head, body) = get(address, "/api/graph?fold=complete,story,milestone,chains", &cookie);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let picture: Value = serde_json::from_str(&body).unwrap();
    check(&picture);
    assert_eq!(picture, folded(&trial, "complete,story,milestone,chains"));
    let (head, body) = get(address, "/api/graph?fold=nonsense", &cookie);
    assert!(head.starts_with("HTTP/1.1 400") && body.contains("`nonsense`"), "{head} {body}");
    page.signal(Signal::TERM);
    page.end(&trial).code(143);
}
