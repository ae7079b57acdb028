//! Branches that both changed the graph, combined by real merges, rebases and cherry-picks.

use std::fs;

use crate::support::{RALPH, TestProject};

const GRAPH: &str = "\
version: 1
tasks:
  # The first.
  - id: a
    title: A
    status: todo

  - id: b
    title: B
    status: todo
    depends_on: [a]
";

const SET: &str = "git now merges `task-graph.yaml` by task in this clone, and keeps the lines of both sides in `docs/knowledge/learnings.md`\n";

/// A repository with the merge driver, on branch `main`.
fn set(graph: &str) -> TestProject {
    let trial = TestProject::new().graph(graph);
    trial.run(["merge-driver", "--install"]).stdout(SET);
    trial
}

/// Commits an edit of the graph, `old => new`, on a new branch from `main`, and returns to `main`.
fn branch(trial: &TestProject, name: &str, edits: &[(&str, &str)]) {
    trial.git(&["checkout", "--quiet", "-b", name, "main"]);
    let text = edits.iter().fold(trial.graph_text(), |text, (old, new)| {
        assert!(text.contains(old), "{old:?} in {text}");
        text.replacen(old, new, 1)
    });
    trial.write("task-graph.yaml", &text);
    trial.git(&["commit", "--quiet", "--all", "--message", name]);
    trial.git(&["checkout", "--quiet", "main"]);
}

/// Runs git, which may fail, and returns its exit code and standard error.
fn tried(trial: &TestProject, words: &[&str]) -> (Option<i32>, String) {
    let output = trial.process("git").args(words).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn branches_that_did_different_tasks_come_together() {
    let trial = set(GRAPH);
    let new = |id: &str| format!("    depends_on: [a]\n  - id: {id} # by {id}\n    title: New\n");
    let done = "status: done\n    completed_at: \"2026-11-20T22:44:03Z\"";
    let last = "    depends_on: [a]\n";
    branch(&trial, "one", &[("status: todo", done), (last, &new("one"))]);
    branch(&trial, "two", &[("title: B\n    status: todo", "title: B\n    status: done")]);
    branch(&trial, "three", &[("title: A", "title: 'Aha'"), (last, &new("three"))]);
    branch(&trial, "four", &[("[a]", "[a, one]"), ("# The first.", "# The very first.")]);
    for name in ["one", "two", "three", "four"] {
        trial.git(&["merge", "--quiet", "--no-ff", "--no-edit", name]);
    }
    let want = "\
version: 1
tasks:
  # The very first.
  - id: a
    title: 'Aha'
    status: done
    completed_at: \"2026-11-20T22:44:03Z\"

  - id: b
    title: B
    status: done
    depends_on: [a, one]
  - id: one # by one
    title: New
  - id: three # by three
    title: New
";
    assert_eq!(trial.graph_text(), want);

    // A rebase and a cherry-pick have the same result.
    trial.git(&["branch", "--quiet", "merged"]);
    trial.git(&["reset", "--quiet", "--hard", "one"]);
    for name in ["two", "three"] {
        trial.git(&["rebase", "--quiet", "main", name]);
        trial.git(&["checkout", "--quiet", "main"]);
        trial.git(&["merge", "--quiet", "--ff-only", name]);
    }
    trial.git(&["cherry-pick", "four"]);
    assert_eq!(trial.graph_text(), want);
}

#[test]
fn titles_that_contradict_each_other_are_a_conflict_and_nothing_else_is() {
    let trial = set(GRAPH);
    branch(&trial, "one", &[("title: B", "title: Bee"), ("title: A", "title: Aha")]);
    branch(&trial, "two", &[("title: B", "title: Bea"), ("status: todo", "status: done")]);
    trial.git(&["merge", "--quiet", "one"]);
    let (code, said) = tried(&trial, &["merge", "two"]);
    assert_eq!(
        (code, said.as_str()),
        (
            Some(1),
            "task-graph.yaml: `title` of task `b` differs between the two sides\n\
             task-graph.yaml: 1 conflict to resolve, between `<<<<<<<` and `>>>>>>>`\n"
        )
    );
    assert_eq!(trial.git(&["status", "--short"]), "UU task-graph.yaml\n");
    insta::assert_snapshot!(trial.graph_text(), @"
    version: 1
    tasks:
      # The first.
      - id: a
        title: Aha
        status: done

      - id: b
    <<<<<<< ours
        title: Bee
    =======
        title: Bea
    >>>>>>> theirs
        status: todo
        depends_on: [a]
    ");
}

#[test]
fn a_task_that_one_side_removed_and_the_other_changed_is_kept_for_a_person() {
    let trial = set(GRAPH);
    let second = "\n  - id: b\n    title: B\n    status: todo\n    depends_on: [a]\n";
    branch(&trial, "gone", &[(second, "")]);
    branch(&trial, "other", &[("title: A", "title: Aha")]);
    branch(&trial, "changed", &[("title: B", "title: Bee")]);
    trial.git(&["merge", "--quiet", "other"]);
    trial.git(&["merge", "--quiet", "--no-edit", "gone"]);
    assert_eq!(trial.graph_text(), GRAPH.replace(second, "").replace("title: A", "title: Aha"));
    let (code, said) = tried(&trial, &["merge", "changed"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("task `b` was removed by ours and changed by theirs"), "{said}");
    let kept = second.replace("title: B", "title: Bee");
    assert!(
        trial.graph_text().ends_with(&format!("<<<<<<< ours\n=======\n{kept}>>>>>>> theirs\n"))
    );
}

#[test]
fn edges_and_line_ends_stay_as_they_are() {
    let graph = "nodes:\r\n- id: a\r\n- id: b\r\n- id: c\r\nedges:\r\n- {from: a, to: b}";
    let trial = set(graph);
    let edge = "- {from: a, to: b}";
    branch(&trial, "one", &[(edge, "- {from: a, to: b}\r\n- {from: a, to: c}")]);
    branch(&trial, "two", &[(edge, "- {from: b, to: c}"), ("id: a", "id: a\r\n  status: done")]);
    trial.git(&["merge", "--quiet", "one"]);
    trial.git(&["merge", "--quiet", "--no-edit", "two"]);
    let want = graph
        .replace("id: a", "id: a\r\n  status: done")
        .replace(edge, "- {from: a, to: c}\r\n- {from: b, to: c}");
    assert_eq!(trial.graph_text(), want.replacen("{from: a\r\n  status: done", "{from: a", 1));
}

#[test]
fn a_clean_merge_that_is_no_valid_graph_is_a_conflict() {
    let trial = set("tasks:\n- id: a\n- id: b\n");
    branch(&trial, "one", &[("id: a\n", "id: a\n  depends_on: [b]\n")]);
    branch(&trial, "two", &[("id: b\n", "id: b\n  depends_on: [a]\n")]);
    trial.git(&["merge", "--quiet", "one"]);
    let (code, said) = tried(&trial, &["merge", "two"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("the tasks form a cycle: `a` -> `b` -> `a`"), "{said}");
    assert!(said.ends_with("the merge of both sides is not a valid graph; correct it\n"), "{said}");
    assert_eq!(trial.git(&["status", "--short"]), "UU task-graph.yaml\n");
}

#[test]
fn texts_that_are_no_graph_are_merged_by_lines_and_never_taken_for_merged() {
    let trial = set("tasks: [{id: a, title: A}]\n");
    branch(&trial, "one", &[("title: A", "title: B")]);
    branch(&trial, "two", &[("title: A", "title: C")]);
    branch(&trial, "torn", &[("]", "")]);
    trial.git(&["merge", "--quiet", "one"]);
    for (name, why) in [
        ("two", "`title` of task `a` differs between the two sides"),
        ("torn", "theirs cannot be read: `[` is opened here and never closed"),
    ] {
        let (code, said) = tried(&trial, &["merge", name]);
        let told = format!("task-graph.yaml: merged by lines, because {why}; check the result\n");
        assert_eq!((code, said), (Some(1), told));
        let text = trial.graph_text();
        assert!(text.starts_with("<<<<<<< ours\n") && text.contains(">>>>>>> theirs"), "{text}");
        trial.git(&["merge", "--abort"]);
    }
}

#[test]
fn notes_of_both_sides_are_kept() {
    let trial = TestProject::new().graph(GRAPH).file("docs/knowledge/learnings.md", "# L\n");
    trial.run(["merge-driver", "--install"]).stdout(SET);
    for name in ["one", "two"] {
        trial.git(&["checkout", "--quiet", "-b", name, "main"]);
        trial.write("docs/knowledge/learnings.md", &format!("# L\n- {name}\n"));
        trial.git(&["commit", "--quiet", "--all", "--message", name]);
    }
    trial.git(&["merge", "--quiet", "--no-edit", "one"]);
    assert_eq!(trial.read("docs/knowledge/learnings.md"), "# L\n- two\n- one\n");
}

#[test]
fn a_night_on_a_branch_of_its_own_merges_with_a_day_on_another() {
    let trial = TestProject::new()
        .graph("tasks: [{id: a}, {id: b, max_attempts: 1}, {id: c}]\n")
        .agent("told");
    fs::write(
        trial.sign("do"),
        "[ $RALPH_TASK_ID != b ] || [ -e \"$TRIAL_DIR/day\" ] || exit 1; work",
    )
    .unwrap();
    let said = trial.run(["run", "--onto", "night"]).code(3).whole();
    assert!(said.contains("git merges `task-graph.yaml` by task"), "{said}");
    trial.leave("day");
    trial.run(["task-reset", "b"]);
    let said = trial.run(["run", "--task", "b"]).code(0).whole();
    assert!(!said.contains("git merges"), "{said}");
    trial.git(&["merge", "--quiet", "--no-edit", "night"]);
    for id in ["a", "b", "c"] {
        assert_eq!(trial.status(id), "complete", "{id}");
    }
}

#[test]
fn installing_twice_and_uninstalling_leaves_no_trace() {
    let trial = TestProject::new().graph(GRAPH);
    let attributes = trial.root().join(".git/info/attributes");
    let _ = fs::remove_file(&attributes);
    let before = trial.everything();
    trial.run(["merge-driver", "--install"]).stdout(SET);
    let once = trial.everything();
    trial.run(["merge-driver", "--install"]).stdout(&SET.replace("git now", "git already"));
    assert!(trial.everything() == once, "the second time writes nothing");
    trial.run(["merge-driver", "--uninstall"]).stdout("git merges the graph by lines\n");
    assert!(trial.everything() == before, "nothing is left of it");
    let again = "the driver was not installed: git merges the graph by lines\n";
    trial.run(["merge-driver", "--uninstall"]).stdout(again);

    let own = "*.bin -text\r\n\n# no line break at the end";
    trial.write(".git/info/attributes", own);
    let before = trial.everything();
    trial.run(["merge-driver", "--install"]);
    assert!(fs::read_to_string(&attributes).unwrap().ends_with(own));
    trial.run(["merge-driver", "--uninstall"]);
    assert!(trial.everything() == before, "a person's lines are as they were");

    trial.write(".git/info/attributes", "*.yaml merge=binary\n");
    trial
        .run(["merge-driver", "--install"])
        .stdout(SET)
        .stderr_has("set `merge=binary` for `task-graph.yaml` and take precedence");
}

#[test]
fn a_program_that_is_gone_is_told_and_nothing_is_taken_for_merged() {
    let trial = TestProject::new().graph(GRAPH);
    // Its path has characters that are special to git and to shells.
    let folder = trial.dir().join("it's 100%O $here");
    fs::create_dir(&folder).unwrap();
    let moved = folder.join("ralph");
    // By another process: a parallel test could inherit a file that is open for writing here.
    assert!(trial.process("cp").arg(RALPH).arg(&moved).status().unwrap().success());
    let output = trial
        .process(moved.to_str().unwrap())
        .args(["merge-driver", "--install"])
        .output()
        .unwrap();
    assert!(output.status.success());
    branch(&trial, "one", &[("title: A", "title: Aha")]);
    branch(&trial, "two", &[("status: todo", "status: done")]);
    branch(&trial, "three", &[("title: A", "title: Other")]);
    trial.git(&["merge", "--quiet", "one"]);
    trial.git(&["merge", "--quiet", "--no-edit", "two"]);
    assert!(trial.graph_text().contains("title: Aha\n    status: done\n"));

    fs::remove_file(&moved).unwrap();
    let (code, said) = tried(&trial, &["merge", "three"]);
    let told = format!(
        "{} is missing: task-graph.yaml was merged by lines, check the result; then run `ralph \
         merge-driver --install`\n",
        moved.display()
    );
    assert_eq!((code, said), (Some(1), told));
    assert!(trial.graph_text().contains("<<<<<<< ours\n    title: Aha\n"));
}

#[test]
fn a_graph_elsewhere_is_merged_where_it_lies() {
    let trial = TestProject::new().file("plans/my graph.yaml", GRAPH);
    trial
        .run(["merge-driver", "--install", "--graph", "plans/my graph.yaml"])
        .stdout(&SET.replace("task-graph.yaml", "plans/my graph.yaml"));
    let set = "plans/my graph.yaml: merge: ralph-graph\n";
    assert_eq!(trial.git(&["check-attr", "merge", "plans/my graph.yaml"]), set);
    trial
        .run(["merge-driver", "--install", "--graph", "/elsewhere.yaml"])
        .code(64)
        .stderr_has("`/elsewhere.yaml` is not in this repository");
    trial.run(["merge-driver", "base"]).code(64).stderr_has("<OURS>");
}
