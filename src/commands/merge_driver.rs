//! `ralph merge-driver`: the git merge driver for the graph, and its installation.
//!
//! Git reads only the exit code: 0 is clean, any other below 128 is a conflict. Every error here is a
//! conflict, so that git never takes a broken file for merged.

use std::{fs, io, path::Path};

use anyhow::{Context, Result};

use super::{Invocation, success};
use crate::{
    adapters::{
        excerpt,
        git::{self, Repo},
        process, state,
        terminal::{self, Paint},
    },
    cli::MergeDriverArgs,
    core::{
        diagnostic::Diagnostic,
        exit::{Exit, fail},
        graph::{
            load,
            merge::{self, Texts},
        },
        loop_paths,
    },
    project::workspace::Workspace,
    regular_file,
    view::lines::counted,
};

/// The name of the driver in git's configuration.
const NAME: &str = "ralph-graph";
/// The lines around our block in the attributes.
const FIRST: &str = "# Set by `ralph merge-driver --install`; `--uninstall` removes these lines.";
const LAST: &str = "# Until here.";

/// Merges three files, or installs or removes the driver.
///
/// # Errors
/// Errors of git and of the disk. A conflict is reported here, with exit code 1.
pub fn run(invocation: &Invocation, options: &MergeDriverArgs) -> Result<Exit> {
    if options.install {
        return install(&invocation.workspace()?);
    }
    if options.uninstall {
        return uninstall(&invocation.workspace()?.repo);
    }
    let (Some(base), Some(ours), Some(theirs)) = (&options.base, &options.ours, &options.theirs)
    else {
        return fail(Exit::Usage, "name three files: base, ours and theirs");
    };
    let read = |path: &Path| {
        regular_file::read(path).with_context(|| format!("cannot read `{}`", path.display()))
    };
    let texts = [read(base)?, read(ours)?, read(theirs)?];
    let name = options.path.as_ref().unwrap_or(ours).display().to_string();
    let (text, exit) = merged(&name, &texts)?;
    regular_file::write(ours, &text)
        .with_context(|| format!("cannot write `{}`", ours.display()))?;
    Ok(exit)
}

/// The merged text, with exit code 1 if a person must check it. Reports conflicts.
fn merged(name: &str, all: &[Vec<u8>; 3]) -> Result<(Vec<u8>, Exit)> {
    let say = |text: &str| terminal::say(&terminal::visible(&format!("{name}: {text}")));
    let [base, ours, theirs] = all;
    let texts = match (text(base), text(ours), text(theirs)) {
        (Some(base), Some(ours), Some(theirs)) => Some(Texts { base, ours, theirs }),
        _ => None,
    };
    let by_task = texts.map(merge::merge);
    if let Some(Ok(merged)) = by_task {
        for conflict in &merged.conflicts {
            say(&conflict.to_string());
        }
        if merged.conflicts.is_empty() {
            return Ok(judged(name, merged.text));
        }
        let count = counted(merged.conflicts.len(), "conflict");
        say(&format!("{count} to resolve, between `<<<<<<<` and `>>>>>>>`"));
        return Ok((merged.text.into_bytes(), Exit::Error));
    }
    let lines = git::merge_lines(base, ours, theirs)?;
    if let (true, Some(texts), Some(text)) = (lines.is_clean, texts, text(&lines.text))
        && merge::holds(texts, text)
    {
        return Ok(judged(name, text.to_owned()));
    }
    let reason = match by_task {
        Some(Err(unmergeable)) => unmergeable.reason,
        _ => "it is not UTF-8".to_owned(),
    };
    say(&format!("merged by lines, because {reason}; check the result"));
    Ok((lines.text, Exit::Error))
}

/// The cleanly merged text, with exit code 1 if it is not a valid graph.
fn judged(name: &str, text: String) -> (Vec<u8>, Exit) {
    let Err(faults) = graph(&text) else {
        return (text.into_bytes(), Exit::Success);
    };
    let color = Paint::for_stream(&io::stderr()).is_on();
    terminal::say(&excerpt::render(name, &text, &faults, color));
    let note = format!("{name}: the merge of both sides is not a valid graph; correct it");
    terminal::say(&terminal::visible(&note));
    (text.into_bytes(), Exit::Error)
}

fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok()
}

fn graph(text: &str) -> Result<(), Vec<Diagnostic>> {
    load::read(text).map(drop)
}

/// Installs the driver in this clone.
fn install(workspace: &Workspace) -> Result<Exit> {
    let Some(graph) = workspace.graph_in_git() else {
        return fail(
            Exit::Usage,
            format!(
                "`{}` is not in this repository, so git does not merge it",
                workspace.graph_name()
            ),
        );
    };
    let news = if set_up(workspace, &graph)? { "git now merges" } else { "git already merges" };
    let with = workspace.repo.local().merged_with(&graph)?;
    if with != NAME {
        terminal::say(&format!(
            "note: other git attributes set `merge={with}` for `{graph}` and take precedence; see \
             `git check-attr -a {graph}`"
        ));
    }
    success(&format!(
        "{news} `{graph}` by task in this clone, and keeps the lines of both sides in `{}`\n",
        loop_paths::LEARNINGS
    ))
}

/// Sets the driver up for a graph of the repository. Returns whether it was not there.
///
/// # Errors
/// Errors of git and of the disk.
pub(super) fn set_up(workspace: &Workspace, graph: &str) -> Result<bool> {
    let repo = &workspace.repo;
    let lines = [
        format!("{} merge={NAME}", pattern(graph)),
        format!("{} merge=union", pattern(loop_paths::LEARNINGS)),
    ];
    let block = format!("{FIRST}\n{}\n{LAST}\n", lines.join("\n"));
    let program = process::own_file().context("find this program")?;
    let set = repo.local().set_driver(NAME, "task graph, by task", &command(&program))?;
    let path = repo.local().attributes();
    let old = attributes(&path)?;
    let new = block + &without_ours(&old);
    if new != old {
        write(&path, &new)?;
    }
    Ok(set || new != old)
}

fn uninstall(repo: &Repo) -> Result<Exit> {
    let news =
        if remove(repo)? { "git merges" } else { "the driver was not installed: git merges" };
    success(&format!("{news} the graph by lines\n"))
}

/// Removes the driver. Returns whether it was there.
///
/// # Errors
/// Errors of git and of the disk.
pub(super) fn remove(repo: &Repo) -> Result<bool> {
    let path = repo.local().attributes();
    let old = attributes(&path)?;
    let new = without_ours(&old);
    if new.is_empty() && new != old {
        fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    } else if new != old {
        write(&path, &new)?;
    }
    // The attributes first: without them git merges by lines.
    Ok(repo.local().unset_driver(NAME)? || new != old)
}

/// The command line for git. If this program is missing, it reports that, merges by lines and exits
/// with a conflict.
fn command(program: &Path) -> String {
    let text = program.display().to_string().replace('\'', r"'\''").replace('%', "%%");
    format!(
        "if test -x '{text}'; then '{text}' merge-driver -- %O %A %B %P; else \
         echo '{text} is missing:' %P 'was merged by lines, check the result; then run \
         `ralph merge-driver --install`' >&2; \
         git merge-file -q -L ours -L base -L theirs %A %O %B; exit 1; fi"
    )
}

/// A path as a pattern of git's attributes.
fn pattern(path: &str) -> String {
    let mut text = git::pattern(path);
    if text.contains(|c: char| c.is_whitespace() || c == '"') {
        text = format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
    }
    text
}

/// The attributes without our block.
fn without_ours(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(FIRST) {
        let Some(end) = rest[at..].find(LAST) else { break };
        let end = at + end + LAST.len();
        kept.push_str(&rest[..at]);
        rest = rest[end..].strip_prefix('\n').unwrap_or(&rest[end..]);
    }
    kept + rest
}

fn attributes(path: &Path) -> Result<String> {
    match regular_file::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| format!("cannot read `{}`", path.display())),
    }
}

/// Writes the attributes.
fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("the attributes file has no folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| state::replace(path, text.as_bytes()))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_patterns_that_match_only_them() {
        assert_eq!(pattern("task-graph.yaml"), "/task-graph.yaml");
        assert_eq!(pattern("a b/[x]*.yaml"), r#""/a b/\\[x]\\*.yaml""#);
    }

    #[test]
    fn only_our_block_is_removed() {
        let ours = format!("{FIRST}\nx\n{LAST}\n");
        for text in ["", "*.c text", "a\r\n\n# b\n"] {
            assert_eq!(without_ours(&(ours.clone() + text)), text);
            assert_eq!(without_ours(text), text);
        }
        assert_eq!(without_ours(&format!("a\n{ours}b")), "a\nb");
        let torn = format!("{FIRST}\nmine\n");
        assert_eq!(without_ours(&torn), torn);
    }
}
