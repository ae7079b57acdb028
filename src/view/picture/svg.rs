//! The picture as an SVG image: without scripts and fonts of its own, for light and dark pages.
//!
//! Each state has a color and a sign, so that neither is needed to tell them apart.

use std::{collections::HashMap, fmt::Write as _};

use super::{
    BoxKind, EdgeState, FoldKinds, GraphPicture, PictureBox, PictureLayout, PictureLine,
    PictureNode, StateMark,
    drawing::{Font, LEFT, RIGHT, counts_text, fitted, text_width},
};
use crate::adapters::terminal::visible;

/// The space around the picture.
const MARGIN: f64 = 24.0;
/// The height of the text above the picture.
const TOP: f64 = 52.0;
/// The height of the legend below the picture.
const BOTTOM: f64 = 40.0;
/// The least width, for the text above the picture.
const LEAST_WIDTH: f64 = 320.0;
/// The largest width that the text above the picture may ask for.
const TEXT_WIDTH: f64 = 900.0;
/// The radius of the corners of lines.
const RADIUS: f64 = 16.0;

/// The colors of lines, on a light and on a dark page.
const LINES: [(EdgeState, &str, [&str; 2]); 3] = [
    (EdgeState::Satisfied, "satisfied", ["#b0b0b0", "#4c525a"]),
    (EdgeState::Pending, "pending", ["#666666", "#9aa2ab"]),
    (EdgeState::Dead, "dead", ["#b3261e", "#ff8a7d"]),
];

/// What does not depend on the page.
const STYLE: &str = "text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif;\
    font-size:11px}.id{font-size:13px;font-weight:600}.edge{fill:none;stroke-width:1.4}\
    .edge.dead{stroke-width:1.8;stroke-dasharray:6 4}.box>rect{stroke-width:1.2}\
    .box.running>rect,.box.stuck>rect{stroke-width:2.2}.box.cancelled>rect{stroke-dasharray:4 3}\
    .box.waiting>rect{stroke-width:1}.line{fill:none;stroke-width:2;stroke-linecap:round;\
    stroke-linejoin:round}.bar rect{stroke:none}";

impl GraphPicture {
    /// The picture as an SVG image.
    pub fn svg(&self, folding: &FoldKinds) -> String {
        let layout = self.drawing(folding);
        let [first, second] = self.heading(&layout);
        let texts = text_width(&first, Font::Title).max(text_width(&second, Font::Text));
        let width = layout.width.max(texts.min(TEXT_WIDTH)).max(LEAST_WIDTH);
        let (full, height) = (width + 2.0 * MARGIN, layout.height + TOP + BOTTOM + 2.0 * MARGIN);
        let (full, height) = (number(full.ceil()), number(height.ceil()));
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full}\" height=\"{height}\" \
             viewBox=\"0 0 {full} {height}\" role=\"img\" aria-labelledby=\"ralph-title ralph-desc\">\n\
             <title id=\"ralph-title\">{}</title>\n<desc id=\"ralph-desc\">{}</desc>\n\
             <style>{}</style>\n<defs>{}</defs>\n\
             <rect class=\"page\" width=\"{full}\" height=\"{height}\"/>\n",
            xml(&first),
            xml(&self.description(&layout)),
            style(),
            tips()
        );
        let _ = writeln!(
            text,
            "<text class=\"id\" x=\"{MARGIN}\" y=\"34\">{}</text>\n\
             <text class=\"more\" x=\"{MARGIN}\" y=\"53\">{}</text>",
            xml(&fitted(&first, Font::Title, width)),
            xml(&fitted(&second, Font::Text, width))
        );
        let _ = writeln!(text, "<g transform=\"translate({MARGIN},{})\">", MARGIN + TOP);
        let mut lines: Vec<&PictureLine> = layout.lines.iter().collect();
        lines.sort_by_key(|line| line.state);
        for line in lines {
            let (class, path) = (line_class(line.state), path(&line.points));
            let _ = writeln!(
                text,
                "<path class=\"edge {class}\" d=\"{path}\" marker-end=\"url(#ralph-{class})\"/>"
            );
        }
        let nodes: HashMap<&str, &PictureNode> =
            self.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        for one in &layout.boxes {
            let task = nodes.get(one.id.as_str()).filter(|_| one.kind == BoxKind::Task);
            text.push_str(&drawn_box(one, task.copied()));
        }
        text.push_str("</g>\n");
        text.push_str(&self.legend(MARGIN + TOP + layout.height + BOTTOM, width));
        text + "</svg>\n"
    }

    /// The two lines above the picture.
    fn heading(&self, layout: &PictureLayout) -> [String; 2] {
        let first = format!("{}: {}", self.file, self.counts.progress());
        let mut notes = vec![self.counts.parts().join(", ")];
        notes.extend((layout.implied > 0).then(|| format!("implied: {} left out", layout.implied)));
        notes.extend(layout.folded.iter().map(|why| format!("folded: {why}")));
        notes.retain(|note| !note.is_empty());
        [first, notes.join(" · ")]
    }

    /// The picture in words.
    fn description(&self, layout: &PictureLayout) -> String {
        let [_, notes] = self.heading(layout);
        let (tasks, lines) = (self.nodes.len(), layout.lines.len());
        let dead = layout.lines.iter().filter(|line| line.state == EdgeState::Dead).count();
        format!(
            "A task graph from left to right. Tasks: {tasks}; boxes: {}; lines between them: \
             {lines}; lines from what needs a person: {dead}. {notes}",
            layout.boxes.len()
        )
    }

    /// The states of the picture with their signs and words.
    fn legend(&self, y: f64, width: f64) -> String {
        let mut text = String::from("<g class=\"legend\">");
        let mut x = MARGIN;
        for look in StateMark::looks().iter().rev() {
            let count = self.nodes.iter().filter(|node| node.state.mark() == look.mark).count();
            let words = format!("{} ({count})", look.words);
            let needed = text_width(&words, Font::Text) + 30.0;
            if count == 0 || x + needed > width + MARGIN {
                continue;
            }
            let class = look.name;
            let _ = write!(
                text,
                "<g class=\"{class}\">{}<text class=\"more\" x=\"{}\" y=\"{}\">{words}</text></g>",
                sign(look.mark, x + 7.0, y),
                number(x + 19.0),
                number(y + 4.0)
            );
            x += needed + 8.0;
        }
        text + "</g>\n"
    }
}

impl PictureNode {
    /// The lines of its box; the second is empty if it would say nothing more.
    pub(super) fn texts(&self) -> (String, String) {
        let title = if self.title == self.id.as_str() { "" } else { self.title.trim() };
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        (self.id.to_string(), visible(&title).into_owned())
    }
}

/// A box with its texts.
fn drawn_box(one: &PictureBox, task: Option<&PictureNode>) -> String {
    let (class, PictureBox { x, y, width, height, .. }) = (one.mark.look().name, one);
    let room = width - LEFT - RIGHT;
    let (first, second, whole) = if let Some(task) = task {
        let (id, title) = task.texts();
        let whole = if title.is_empty() {
            format!("{id} ({})", task.state.word())
        } else {
            format!("{id}: {} ({})", task.title, task.state.word())
        };
        (id, title, whole)
    } else {
        let counts = counts_text(&one.counts);
        let whole = format!("{}: {counts}\n{}", one.label, named(&one.tasks));
        (one.label.clone(), counts, whole)
    };
    let mut text = format!("<g class=\"box {class}\"><title>{}</title>", xml_lines(&whole));
    let rect = |by: f64| {
        let (x, y) = (number(x + by), number(y + by));
        format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>")
    };
    if task.is_none() {
        text += &rect(3.0);
    }
    text += &rect(0.0);
    text += &sign(one.mark, x + 16.0, y + 15.0);
    let left = number(x + LEFT);
    let mut line = |class: &str, by: f64, words: &str, font: Font| {
        let (y, words) = (number(y + by), xml(&fitted(words, font, room)));
        let _ = write!(text, "<text class=\"{class}\" x=\"{left}\" y=\"{y}\">{words}</text>");
    };
    line("id", 19.5, &first, Font::Title);
    if !second.is_empty() {
        line("more", 36.0, &second, Font::Text);
    }
    if task.is_none() {
        text += &bar(one, room);
    }
    text + "</g>\n"
}

/// How much of a box with several tasks is in each state.
fn bar(one: &PictureBox, room: f64) -> String {
    let mut text = String::from("<g class=\"bar\">");
    let total = one.tasks.len().max(1) as f64;
    let mut x = one.x + LEFT;
    for (mark, count) in one.counts.iter().rev() {
        let wide = room * *count as f64 / total;
        let (class, y) = (mark.look().name, number(one.y + 43.0));
        let _ = write!(
            text,
            "<g class=\"{class}\"><rect class=\"full\" x=\"{}\" y=\"{y}\" width=\"{}\" height=\"4\"/></g>",
            number(x),
            number(wide)
        );
        x += wide;
    }
    text + "</g>"
}

/// The ids of tasks, as many as a person reads.
fn named(tasks: &[String]) -> String {
    const NAMED: usize = 40;
    let more = tasks.len().saturating_sub(NAMED);
    let mut text = tasks.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

fn xml_lines(text: &str) -> String {
    text.split('\n').map(xml).collect::<Vec<_>>().join("\n")
}

fn sign(mark: StateMark, x: f64, y: f64) -> String {
    let (path, is_filled) = mark.look().path;
    let class = if is_filled { "full" } else { "line" };
    let (x, y) = (number(x), number(y));
    format!("<path class=\"{class}\" transform=\"translate({x},{y})\" d=\"{path}\"/>")
}

/// The path of a line, with rounded corners.
fn path(points: &[[f64; 2]]) -> String {
    let mut text = String::new();
    for (at, point) in points.iter().enumerate() {
        let [x, y] = point.map(number);
        let ends = (at.checked_sub(1).map(|before| points[before]), points.get(at + 1));
        let _ = match ends {
            (None, _) => write!(text, "M{x},{y}"),
            (Some(_), None) => write!(text, "L{x},{y}"),
            (Some(before), Some(after)) => {
                let [from, to] = [toward(*point, before), toward(*point, *after)];
                let (from, to) = (from.map(number), to.map(number));
                write!(text, "L{},{}Q{x},{y} {},{}", from[0], from[1], to[0], to[1])
            }
        };
    }
    text
}

/// The point where the corner at `corner` begins, on the way to another point.
fn toward(corner: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    let (x, y) = (other[0] - corner[0], other[1] - corner[1]);
    let length = x.hypot(y).max(0.1);
    let part = (RADIUS / length).min(0.5);
    [corner[0] + x * part, corner[1] + y * part]
}

fn line_class(state: EdgeState) -> &'static str {
    let found = LINES.iter().find(|(one, ..)| *one == state);
    found.map_or("", |(_, class, _)| class)
}

/// The tips of lines.
fn tips() -> String {
    let tip = |(_, class, _): (EdgeState, &str, [&str; 2])| {
        format!(
            "<marker id=\"ralph-{class}\" viewBox=\"0 0 9 8\" refX=\"9\" refY=\"4\" \
             markerWidth=\"9\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">\
             <path class=\"tip {class}\" d=\"M0,0L9,4L0,8L2,4Z\"/></marker>"
        )
    };
    LINES.into_iter().map(tip).collect()
}

/// The style sheet: a light page, and a dark one where that is preferred.
fn style() -> String {
    let sheet = |dark: bool| {
        let side = usize::from(dark);
        let page = [["#ffffff", "#1a1a1a", "#555555"], ["#16181c", "#ececec", "#a9b0b8"]][side];
        let mut text =
            format!(".page{{fill:{}}}text{{fill:{}}}.more{{fill:{}}}", page[0], page[1], page[2]);
        for look in StateMark::looks() {
            let class = look.name;
            let [fill, stroke] = if dark { look.dark } else { look.light };
            let _ = write!(
                text,
                ".{class}>rect{{fill:{fill};stroke:{stroke}}}.{class}>.line{{stroke:{stroke}}}\
                 .{class}>.full{{fill:{stroke}}}"
            );
        }
        for (_, class, colors) in LINES {
            let color = colors[side];
            let _ = write!(text, ".edge.{class}{{stroke:{color}}}.tip.{class}{{fill:{color}}}");
        }
        text
    };
    format!("{STYLE}{}@media (prefers-color-scheme:dark){{{}}}", sheet(false), sheet(true))
}

/// A length with one decimal.
fn number(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

/// A text in an XML document: markup is escaped, and what XML cannot contain or what changes the
/// order of text is shown and has no effect.
pub(super) fn xml(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::formats::tests::picture;
    use super::*;
    use crate::core::graph::{
        TaskGraph,
        task::{Status, Task},
    };
    use crate::core::samples::{graph, task};

    #[test]
    fn a_small_picture() {
        let titled =
            |id: &str, title: &str, status| Task { title: title.to_owned(), status, ..task(id) };
        let tasks = vec![
            titled("a", "<script>alert('x')</script> \u{202e}\u{1b}", Status::Complete),
            titled("b", &"long & ".repeat(30), Status::Blocked),
            titled("c", "c", Status::Pending),
        ];
        let graph = TaskGraph::new(tasks, vec![(0, 1), (1, 2), (0, 2)]).unwrap();
        let svg = picture(&graph).svg(&FoldKinds::default());
        let style = style();
        insta::assert_snapshot!(svg.replace(&style, "STYLE").replace(&tips(), "TIPS"), @r##"
        <svg xmlns="http://www.w3.org/2000/svg" width="826" height="186" viewBox="0 0 826 186" role="img" aria-labelledby="ralph-title ralph-desc">
        <title id="ralph-title">g.yaml: 1 of 3 complete</title>
        <desc id="ralph-desc">A task graph from left to right. Tasks: 3; boxes: 3; lines between them: 2; lines from what needs a person: 1. 1 blocked, 1 waiting · implied: 1 left out</desc>
        <style>STYLE</style>
        <defs>TIPS</defs>
        <rect class="page" width="826" height="186"/>
        <text class="id" x="24" y="34">g.yaml: 1 of 3 complete</text>
        <text class="more" x="24" y="53">1 blocked, 1 waiting · implied: 1 left out</text>
        <g transform="translate(24,76)">
        <path class="edge satisfied" d="M230,23L274,23" marker-end="url(#ralph-satisfied)"/>
        <path class="edge dead" d="M504,23L548,23" marker-end="url(#ralph-dead)"/>
        <g class="box done"><title>a: &lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; \u{202e}\u{1b} (complete)</title><rect x="0" y="0" width="230" height="46" rx="6"/><path class="line" transform="translate(16,15)" d="M-5,0.5L-1.5,4L5,-4"/><text class="id" x="30" y="19.5">a</text><text class="more" x="30" y="36">&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; \u{202…</text></g>
        <g class="box stuck"><title>b: long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp; long &amp;  (blocked)</title><rect x="274" y="0" width="230" height="46" rx="6"/><path class="full" transform="translate(290,15)" d="M-1.3,-6H1.3V1.5H-1.3ZM-1.3,3.5H1.3V6H-1.3Z"/><text class="id" x="304" y="19.5">b</text><text class="more" x="304" y="36">long &amp; long &amp; long &amp; long &amp; lon…</text></g>
        <g class="box waiting"><title>c (waiting)</title><rect x="548" y="8" width="230" height="30" rx="6"/><path class="full" transform="translate(564,23)" d="M2,0A2,2 0 1 1 -2,0A2,2 0 1 1 2,0Z"/><text class="id" x="578" y="27.5">c</text></g>
        </g>
        <g class="legend"><g class="done"><path class="line" transform="translate(31,162)" d="M-5,0.5L-1.5,4L5,-4"/><text class="more" x="43" y="166">complete (1)</text></g><g class="waiting"><path class="full" transform="translate(141.1,162)" d="M2,0A2,2 0 1 1 -2,0A2,2 0 1 1 2,0Z"/><text class="more" x="153.1" y="166">waiting (1)</text></g><g class="stuck"><path class="full" transform="translate(239,162)" d="M-1.3,-6H1.3V1.5H-1.3ZM-1.3,3.5H1.3V6H-1.3Z"/><text class="more" x="251" y="166">needs a person (1)</text></g></g>
        </svg>
        "##);
    }

    #[test]
    fn a_chain_is_one_box_that_names_its_tasks() {
        let chain: Vec<(usize, usize)> = (1..30).map(|n| (n - 1, n)).collect();
        let svg = picture(&graph(30, &chain)).svg(&FoldKinds::default());
        assert!(svg.contains(">t0 … t29 (30)</text>") && svg.contains("t12, t13"), "{svg}");
        assert_eq!(svg.matches("class=\"box ").count(), 1);
    }

    #[test]
    fn corners_are_round_and_short_lines_are_whole() {
        assert_eq!(path(&[[0.0, 0.0], [10.0, 0.0]]), "M0,0L10,0");
        let bent = path(&[[0.0, 0.0], [40.0, 0.0], [40.0, 8.0]]);
        assert_eq!(bent, "M0,0L24,0Q40,0 40,4L40,8");
        assert_eq!(path(&[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), "M1,1L1,1Q1,1 1,1L1,1");
    }

    #[test]
    fn a_document_has_no_markup_of_a_title() {
        assert_eq!(xml("<a b='c'>&\"\u{1b}[31m"), "&lt;a b=&#39;c&#39;&gt;&amp;&quot;\\u{1b}[31m");
        assert_eq!(
            xml("\u{202e}abc\u{2066}\u{61c}\u{ffff}\0"),
            "\\u{202e}abc\\u{2066}\\u{61c}\\u{ffff}\\u{0}"
        );
    }
}
