//! The picture in the languages of other programs: Graphviz and Mermaid. Implied dependencies are
//! left out.

use std::{collections::HashMap, fmt::Write as _};

use super::{EdgeState, GraphPicture, PictureEdge, StateMark};

/// The most characters of a title in a picture.
const TITLE: usize = 60;

impl GraphPicture {
    /// The picture in the language of Graphviz.
    pub fn dot(&self) -> String {
        let mut text = String::from(
            "digraph ralph {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", \
             fontname=\"sans-serif\"];\n",
        );
        for node in &self.nodes {
            let look = node.state.mark().look();
            let label = format!("{} {}", look.sign, label(node.id.as_str(), &node.title, "\\n"));
            let id = quoted(node.id.as_str());
            let label = quoted(&label).replace("\\\\n", "\\n");
            let fill = look.light[0];
            let _ = writeln!(text, "  {id} [label={label}, fillcolor=\"{fill}\"];");
        }
        for edge in self.shown() {
            let style = match edge.state {
                EdgeState::Satisfied => " [color=\"#9a9a9a\"]",
                EdgeState::Pending => "",
                EdgeState::Dead => " [style=dashed, color=\"#b3261e\"]",
            };
            let (from, to) = (quoted(edge.from.as_str()), quoted(edge.to.as_str()));
            let _ = writeln!(text, "  {from} -> {to}{style};");
        }
        text + "}\n"
    }

    /// The picture in the language of Mermaid.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        let numbers: HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
        for (at, node) in self.nodes.iter().enumerate() {
            let label = label(&escaped(node.id.as_str()), &escaped(&node.title), "<br>");
            let look = node.state.mark().look();
            let (sign, class) = (look.sign, look.name);
            let _ = writeln!(text, "  t{at}[\"{sign} {label}\"]:::{class}");
        }
        for edge in self.shown() {
            let arrow = if edge.state == EdgeState::Dead { "-.->" } else { "-->" };
            let (from, to) = (numbers[edge.from.as_str()], numbers[edge.to.as_str()]);
            let _ = writeln!(text, "  t{from} {arrow} t{to}");
        }
        for look in StateMark::looks() {
            let (name, [fill, _]) = (look.name, look.light);
            let _ = writeln!(text, "  classDef {name} fill:{fill},color:#1a1a1a,stroke:#707070");
        }
        text
    }

    fn shown(&self) -> impl Iterator<Item = &PictureEdge> {
        self.edges.iter().filter(|edge| !edge.implied)
    }
}

/// The text of a box: the id, and the title if it says more.
fn label(id: &str, title: &str, line_break: &str) -> String {
    if title == id {
        return id.to_owned();
    }
    let plain: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let cut = if plain.chars().count() > TITLE {
        plain.chars().take(TITLE - 1).chain(['…']).collect()
    } else {
        plain
    };
    format!("{id}{line_break}{cut}")
}

/// A text as a string of Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A text in which Mermaid sees no markup.
fn escaped(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || " .,-_/!?+'".contains(c) {
            plain.push(c);
        } else {
            let _ = write!(plain, "#{};", u32::from(c));
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::picture;
    use crate::core::graph::{
        TaskGraph,
        task::{Status, Task},
    };
    use crate::core::samples::task;

    #[test]
    fn other_programs_get_boxes_and_arrows() {
        let titled =
            |id: &str, title: &str, status| Task { title: title.to_owned(), status, ..task(id) };
        let tasks = vec![
            titled("a", "Read \"it\" \\ all\n<script>", Status::Complete),
            titled("b", "b", Status::Blocked),
            titled("c", &"long ".repeat(30), Status::Pending),
        ];
        let graph = TaskGraph::new(tasks, vec![(0, 1), (1, 2), (0, 2)]).unwrap();
        let picture = picture(&graph);
        insta::assert_snapshot!(picture.dot(), @r##"
        digraph ralph {
          rankdir=LR;
          node [shape=box, style="rounded,filled", fontname="sans-serif"];
          "a" [label="✓ a\nRead \"it\" \\ all <script>", fillcolor="#d3f0d8"];
          "b" [label="! b", fillcolor="#ffd9d2"];
          "c" [label="· c\nlong long long long long long long long long long long long…", fillcolor="#f3f3f3"];
          "a" -> "b" [color="#9a9a9a"];
          "b" -> "c" [style=dashed, color="#b3261e"];
        }
        "##);
        insta::assert_snapshot!(picture.mermaid(), @r#"
        flowchart LR
          t0["✓ a<br>Read #34;it#34; #92; all#10;#60;script#62;"]:::done
          t1["! b"]:::stuck
          t2["· c<br>long long long long long long long long long long long long…"]:::waiting
          t0 --> t1
          t1 -.-> t2
          classDef stuck fill:#ffd9d2,color:#1a1a1a,stroke:#707070
          classDef running fill:#cfe3ff,color:#1a1a1a,stroke:#707070
          classDef ready fill:#ffffff,color:#1a1a1a,stroke:#707070
          classDef waiting fill:#f3f3f3,color:#1a1a1a,stroke:#707070
          classDef cancelled fill:#e6e6e6,color:#1a1a1a,stroke:#707070
          classDef done fill:#d3f0d8,color:#1a1a1a,stroke:#707070
        "#);
    }
}
