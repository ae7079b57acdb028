//! The workflows of the forge, which nobody here can run, name only what there is.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use serde_json::Value;

use crate::support::unavailable;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file of a folder, with its path from the root.
fn folder(path: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(Path::new(ROOT).join(path)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names
        .map(|name| format!("{path}/{name}"))
        .map(|path| (read(&path), path))
        .map(|(text, path)| (path, text))
        .collect();
    files.sort();
    files
}

/// The words of a command up to the end of its line or command.
fn words(rest: &str) -> Vec<&str> {
    let end = rest.find(['\n', ';', '|', '&', '`']).unwrap_or(rest.len());
    rest[..end].split([' ', '[', ']', ',']).filter(|word| !word.is_empty()).collect()
}

/// The words after each mention of a program, outside of comments.
fn calls<'a>(text: &'a str, program: &str) -> Vec<Vec<&'a str>> {
    let name = format!("{program} ");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let found = lines.flat_map(|line| {
        let starts: Vec<usize> = line.match_indices(&name).map(|(at, _)| at).collect();
        starts.into_iter().map(move |at| (line, at))
    });
    let calls = found.filter(|(line, at)| line[..*at].ends_with([' ', '(', '!']) || *at == 0);
    calls.map(|(line, at)| words(&line[at + program.len() + 1..])).collect()
}

/// Everything in the repository that calls its commands.
fn callers() -> Vec<(String, String)> {
    let mut files = folder(".github/workflows");
    assert!(!files.is_empty());
    files.extend(folder(".ci"));
    files.push(("justfile".to_owned(), read("justfile")));
    files
}

#[test]
fn workflows_are_valid_and_call_scripts_and_recipes_that_exist() {
    let justfile = read("justfile");
    let is_recipe = |name: &str| {
        justfile
            .lines()
            .any(|line| line.split([' ', ':']).next() == Some(name) && line.contains(':'))
    };
    for (path, text) in folder(".github/workflows") {
        let flow: Value = serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        for (name, job) in flow["jobs"].as_object().unwrap() {
            assert!(job["runs-on"].is_string(), "{path}: {name} runs nowhere");
            for step in job["steps"].as_array().unwrap() {
                assert!(step["run"].is_string() || step["uses"].is_string(), "{path}: {step}");
            }
            let recipes = job["strategy"]["matrix"]["recipe"].as_array();
            for recipe in recipes.into_iter().flatten() {
                let name = recipe.as_str().unwrap().split(' ').next().unwrap();
                assert!(is_recipe(name), "{path}: there is no recipe `{name}`");
            }
        }
    }
    for (path, text) in callers() {
        for (at, _) in text.match_indices(".ci/") {
            let rest = &text[at + 4..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(rest.len());
            let script = Path::new(ROOT).join(".ci").join(&rest[..end]);
            let mode = fs::metadata(&script).map(|data| data.permissions().mode());
            assert!(mode.is_ok_and(|mode| mode & 0o111 != 0), "{path} calls {}", script.display());
        }
    }
}

#[test]
fn they_call_cargo_with_commands_and_names_that_exist() {
    const BUILT_IN: &[&str] =
        &["bench", "build", "check", "clippy", "doc", "fmt", "install", "package", "run", "test"];
    let manifest = read("Cargo.toml");
    let mut count = 0;
    for (path, text) in callers() {
        for call in calls(&text, "cargo") {
            let command = *call.iter().find(|word| !word.starts_with(['+', '"'])).unwrap();
            let is_known = match command {
                "deny" => Path::new(ROOT).join("deny.toml").exists(),
                "fuzz" => Path::new(ROOT).join("fuzz/Cargo.toml").exists(),
                other => BUILT_IN.contains(&other),
            };
            assert!(is_known, "{path}: `cargo {}`", call.join(" "));
            for pair in call.windows(2) {
                let found = match pair[0] {
                    "-p" | "--package" => ["ralph-dag", "ralph-dag-core"].contains(&pair[1]),
                    "--test" | "--bench" | "--bin" | "--features" => {
                        manifest.contains(&format!("name = \"{}\"", pair[1]))
                    }
                    "--example" => {
                        Path::new(ROOT).join(format!("examples/{}.rs", pair[1])).exists()
                    }
                    _ => true,
                };
                assert!(found, "{path}: there is no `{} {}`", pair[0], pair[1]);
            }
            count += 1;
        }
    }
    assert!(count > 15, "the commands were not found");
}

#[test]
fn a_release_has_an_archive_for_each_platform_that_is_installed() {
    let triples = |path: &str| -> BTreeSet<String> {
        let text = read(path);
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        let is_triple = |word: &&str| word.contains("-linux-") || word.ends_with("-darwin");
        words.filter(is_triple).map(str::to_owned).collect()
    };
    let built = triples(".github/workflows/release.yml");
    assert_eq!(built.len(), 4, "{built:?}");
    for path in ["install.sh", ".ci/wrappers"] {
        assert_eq!(triples(path), built, "{path}");
    }
    let output = Command::new("rustc").args(["--print", "target-list"]).output();
    let known = String::from_utf8(output.unwrap().stdout).unwrap();
    for target in built {
        assert!(known.lines().any(|line| line == target), "rustc does not know {target}");
    }
}

/// Serves the files of a folder on loopback while the test runs. Returns the address.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let name = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let file = fs::read(folder.join(name));
            let state = if file.is_ok() { "200 OK" } else { "404 Not Found" };
            let body = file.unwrap_or_default();
            let head = format!("HTTP/1.1 {state}\r\nContent-Length: {}\r\n", body.len());
            let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    address
}

#[test]
fn an_archive_is_installed_only_with_its_checksum() {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !has("curl") && !has("wget") {
        return unavailable("neither curl nor wget is installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let (dist, home) = (folder.path().join("dist"), folder.path().join("home"));
    // An archive for every platform: whichever this is.
    let script = "set -e; mkdir -p \"$1\"; cd \"$1\"
        for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-apple-darwin \
            aarch64-apple-darwin; do
            mkdir ralph-1.2.3-$target
            printf '#!/bin/sh\\necho ralph 1.2.3\\n' > ralph-1.2.3-$target/ralph
            chmod +x ralph-1.2.3-$target/ralph
            tar -czf ralph-1.2.3-$target.tar.gz ralph-1.2.3-$target
        done
        sha256sum *.tar.gz > SHA256SUMS || shasum -a 256 *.tar.gz > SHA256SUMS";
    let made = Command::new("sh").args(["-c", script, "-"]).arg(&dist).status().unwrap();
    assert!(made.success());
    let address = serve(dist.clone());
    let install = || -> Output {
        let mut command = Command::new("sh");
        command.arg(Path::new(ROOT).join("install.sh")).env("HOME", &home);
        command.env_remove("RALPH_INSTALL_DIR").env("RALPH_VERSION", "1.2.3");
        command.env("RALPH_INSTALL_URL", &address).output().unwrap()
    };
    let program = home.join(".local/bin/ralph");

    let sums = fs::read_to_string(dist.join("SHA256SUMS")).unwrap();
    let zeros = |line: &str| format!("{}{}\n", "0".repeat(64), &line[64..]);
    let wrong: String = sums.lines().map(zeros).collect();
    fs::write(dist.join("SHA256SUMS"), wrong).unwrap();
    let refused = install();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the SHA-256 of"), "{refused:?}");
    assert!(!refused.status.success() && !program.exists());

    fs::write(dist.join("SHA256SUMS"), sums).unwrap();
    for _ in ["new", "again"] {
        let installed = install();
        assert!(installed.status.success(), "{installed:?}");
        assert!(String::from_utf8_lossy(&installed.stdout).contains("installed ralph 1.2.3"));
    }
    assert_eq!(Command::new(&program).output().unwrap().stdout, b"ralph 1.2.3\n");
    assert_eq!(fs::read_dir(program.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
}
