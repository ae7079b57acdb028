//! A graph in the final answer of an agent: the last fenced block with tasks.

/// Returns the text of the last fenced block that has a line `tasks:` or `nodes:`.
pub fn fenced_graph(answer: &str) -> Option<String> {
    let mut found = None;
    let mut open: Option<(&str, usize, Vec<&str>)> = None;
    for line in answer.lines() {
        let bare = line.trim();
        match &mut open {
            None => {
                if let Some(fence) = fence_of(bare) {
                    let indent = line.len() - line.trim_start().len();
                    open = Some((fence, indent, Vec::new()));
                }
            }
            Some((fence, _, body)) => {
                let closes = fence_of(bare)
                    .is_some_and(|other| other.starts_with(*fence) && other.len() == bare.len());
                if !closes {
                    body.push(line);
                    continue;
                }
                if let Some((_, indent, body)) = open.take() {
                    found = graph_of(&body, indent).or(found);
                }
            }
        }
    }
    // An answer that was cut off has no end of its last block.
    open.and_then(|(_, indent, body)| graph_of(&body, indent)).or(found)
}

/// The run of three or more backticks or tildes at the start of a line.
fn fence_of(line: &str) -> Option<&str> {
    let first = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let length = line.chars().take_while(|c| *c == first).count();
    (length >= 3).then(|| &line[..length])
}

/// The lines of a block without its indentation, if they have tasks.
fn graph_of(lines: &[&str], indent: usize) -> Option<String> {
    let cut = |line: &&str| {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        line[blanks.min(indent)..].to_owned() + "\n"
    };
    let lines: Vec<String> = lines.iter().map(cut).collect();
    let is_list = |line: &String| line.starts_with("tasks:") || line.starts_with("nodes:");
    lines.iter().any(is_list).then(|| lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_with_tasks_counts() {
        let answer = "First I looked:\n```sh\nls\n```\n\n```yaml\ntasks:\n- id: old\n```\nBetter:\n\
                      ~~~~ yml\ntasks:\n- id: new\n  description: |\n    ```\n    code\n    ```\n~~~~\n\
                      ```\nno graph\n```\nDone.";
        let graph = fenced_graph(answer).unwrap();
        assert!(
            graph.starts_with("tasks:\n- id: new\n") && graph.ends_with("    ```\n"),
            "{graph}"
        );
        assert_eq!(
            fenced_graph("1. So:\n   ```yaml\n   tasks:\n   - id: a\n   ```\n").unwrap(),
            "tasks:\n- id: a\n"
        );
        assert_eq!(fenced_graph("```\nnodes: []").unwrap(), "nodes: []\n");
        for none in ["", "tasks:\n- id: a", "```\nls\n```", "``\ntasks:\n``"] {
            assert_eq!(fenced_graph(none), None, "{none}");
        }
    }
}
