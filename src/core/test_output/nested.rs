//! Runners whose tests are in tests or groups: a name has the names around it.

use std::collections::BTreeSet;

use super::find;

/// The failed tests of `node --test`, as TAP or as a list with signs.
pub(super) fn node(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let is_tap = !find(r"^# (?:cancelled|duration_ms) [\d.]+$", output).is_empty();
    let (indent, open, end) = if is_tap {
        (4, r"^ *# Subtest: (.*)$", r"^ *not ok \d+ - (.*?)(?: # (?:TODO|SKIP).*())?$")
    } else {
        (2, r"^ *▶ (.*?)(?: \([\d.]+m?s\))?$", r"^ *✖ (.*?)(?: \([\d.]+m?s\)(?: # .*())?)?$")
    };
    // Failed tests are listed once more at the end.
    let output = output.split("\n✖ failing tests:").next().unwrap_or(output);
    let (mut around, mut files): (Vec<&str>, u64) = (Vec::new(), 0);
    let mut parents = 0;
    for line in output.lines() {
        let depth = (line.len() - line.trim_start().len()) / indent;
        if let Some(title) = find(open, line).first().and_then(|it| it.first()) {
            around.truncate(depth);
            around.push(title);
        }
        let ended = find(end, line);
        // A second group is the reason why it counts as passed.
        let Some([title]) = ended.first().map(Vec::as_slice) else { continue };
        if depth == 0 && is_script(title) {
            files += 1;
            continue;
        }
        let mut name: Vec<&str> = around.iter().take(depth).copied().collect();
        name.push(title);
        let name = name.join(" > ").replace("\\#", "#");
        let start = format!("{name} > ");
        if failed.iter().any(|it| it.starts_with(&start)) {
            parents += 1;
        } else {
            failed.insert(name);
        }
    }
    files + parents
}

/// Whether the title of a test is the path of its file.
fn is_script(title: &str) -> bool {
    !find(r"(?:^|/)[\w.@-]+\.[cm]?[jt]sx?$()", title).is_empty()
}

/// The failed tests of mocha, which lists them at its end.
pub(super) fn mocha(output: &str, failed: &mut BTreeSet<String>) -> u64 {
    let (mut is_list, mut name): (bool, Vec<&str>) = (false, Vec::new());
    for line in output.lines() {
        is_list |= !find(r"^  \d+ failing$()", line).is_empty();
        if !is_list {
            continue;
        }
        if let Some(title) = find(r"^  \d+\) (.*)$", line).first().and_then(|it| it.first()) {
            name = vec![title];
        } else if !name.is_empty() && line.starts_with("       ") && !line.trim().is_empty() {
            name.push(line.trim());
        } else if !name.is_empty() {
            failed.insert(name.join(" > ").trim_end_matches(':').to_owned());
            name.clear();
        }
    }
    0
}
