//! `ralph graph`: the picture in the terminal and for other programs.

use std::{fs, process::Stdio};

use crate::{
    support::{TestProject, is_page},
    terminal::{bare, on_terminal},
};

const GRAPH: &str = "tasks:
  - {id: read, title: Read the file, status: complete}
  - {id: parse, title: Parse what was read into a tree that the printer and the checker can use, depends_on: [read]}
  - {id: check, title: Check the tree, depends_on: [parse]}
  - {id: print, title: Print the tree, depends_on: [parse]}
  - {id: all, title: \"All of it\\e[31m\", depends_on: [check, print, parse]}
  - {id: never, title: Not today, status: blocked, tags: [later]}
";

#[test]
fn what_is_left_is_a_tree() {
    let trial = TestProject::new().graph(GRAPH);
    insta::assert_snapshot!(trial.run(["graph"]).out(), @r"
    task-graph.yaml: 1 of 6 complete, 1 blocked, 1 ready, 3 waiting
    ✓ 1 done (--all draws them)
    ! never     Not today  blocked
    ○ parse     Parse what was read into a tree that the printer and the checker can use
    ├─ · check  Check the tree
    └─ · print  Print the tree
       ↓ · all  All of it\u{1b}[31m  also waits on check
    ");
    insta::assert_snapshot!(trial.run(["graph", "--all", "--tag", "later"]).out(), @r"
    task-graph.yaml: 0 of 1 done, 1 blocked
    ! never  Not today  blocked
    ");
    trial.run(["graph", "--tag", "latr"]).code(64).stderr_has("later");
    trial.run(["graph", "--story", "Don't"]).code(64).stderr_has("the story `Don't`");
    // A pipe has no width, unless it is set.
    let narrow = trial.env("COLUMNS", "40").run(["graph"]).out();
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
}

#[test]
fn a_terminal_is_never_too_narrow() {
    let trial = TestProject::new().graph(GRAPH);
    for columns in [60, 100] {
        let mut person = on_terminal(&trial, columns, "graph --all");
        let shown = bare(&person.exp_eof().unwrap());
        for line in shown.lines() {
            let width = ralph::adapters::terminal::columns(line.trim_end());
            assert!(width <= columns as usize, "{width} columns of {columns}: {line:?}");
        }
        assert!(shown.contains("also waits on"), "{shown}");
    }
}

#[test]
fn other_programs_read_the_picture() {
    let trial = TestProject::new().graph(GRAPH);
    let picture = trial.run(["graph", "--format", "json"]).json();
    assert_eq!(picture["nodes"].as_array().unwrap().len(), 6);
    let implied = picture["edges"].as_array().unwrap().iter().filter(|it| it["implied"] == true);
    assert_eq!(implied.count(), 1);
    let dot = trial.run(["graph", "--format", "dot"]).out();
    assert!(dot.contains("\"parse\" -> \"check\";"), "{dot}");
    let mermaid = trial.run(["graph", "--format", "mermaid"]).out();
    assert!(mermaid.starts_with("flowchart LR\n") && !mermaid.contains('\u{1b}'), "{mermaid}");
    // Graphviz itself, where it is installed.
    let mut graphviz = trial.process("dot");
    let Ok(mut child) = graphviz.arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    else {
        println!("skipped: there is no Graphviz here");
        return;
    };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), dot.as_bytes()).unwrap();
    let drawn = child.wait_with_output().unwrap();
    assert!(drawn.status.success() && drawn.stdout.starts_with(b"<?xml"));
}

/// `RALPH_WRITE=1` rewrites it.
#[test]
fn the_readme_shows_the_graph_of_the_demo() {
    let file =
        |path: &str| fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut graph = file("src/commands/demo.yaml");
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
    let drawn = TestProject::new().graph(&graph).run(["graph", "--format", "mermaid"]).out();
    let page = file("README.md");
    let (before, rest) = page.split_once("```mermaid\n").unwrap();
    let (_, after) = rest.split_once("```\n").unwrap();
    is_page("README.md", &format!("{before}```mermaid\n{drawn}```\n{after}"));
}
