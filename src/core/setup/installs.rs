//! The commands that install what a project needs into a fresh copy of it.

use std::collections::BTreeMap;

use serde_json::Value;

/// The ignored files that a copy usually needs, as patterns of `.worktreeinclude`.
const WANTED: &[&str] = &[".env", ".env.local", ".env.development", ".env.test", ".envrc"];

/// Finds the commands, from the names at the top of the project and the texts of its manifests.
/// Only commands whose program is on PATH count.
pub fn installs(
    names: &[String],
    texts: &BTreeMap<String, String>,
    on_path: impl Fn(&str) -> bool,
) -> Vec<String> {
    let has = |name: &str| names.iter().any(|it| it == name);
    let node = node(has, texts.get("package.json").map_or("", String::as_str));
    let by_file = [
        ("uv.lock", "uv sync"),
        ("poetry.lock", "poetry install"),
        ("pdm.lock", "pdm install"),
        ("Pipfile.lock", "pipenv sync --dev"),
        ("Cargo.lock", "cargo fetch"),
        ("go.mod", "go mod download"),
        ("Gemfile.lock", "bundle install"),
        ("composer.lock", "composer install"),
        ("mix.lock", "mix deps.get"),
    ];
    let others = by_file.into_iter().filter(|(file, _)| has(file)).map(|(_, command)| command);
    let is_ready = |command: &&str| on_path(command.split(' ').next().unwrap_or_default());
    node.into_iter().chain(others).filter(is_ready).map(str::to_owned).collect()
}

fn node(has: impl Fn(&str) -> bool, package: &str) -> Option<&'static str> {
    let locks = [
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("bun.lock", "bun install --frozen-lockfile"),
        ("bun.lockb", "bun install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
        ("npm-shrinkwrap.json", "npm ci"),
    ];
    if let Some((_, command)) = locks.into_iter().find(|(lock, _)| has(lock)) {
        return Some(command);
    }
    if has("yarn.lock") {
        // Yarn 2 and later has this file and no longer the old flag.
        let is_new = has(".yarnrc.yml");
        return Some(if is_new {
            "yarn install --immutable"
        } else {
            "yarn install --frozen-lockfile"
        });
    }
    let package: Value = serde_json::from_str(package).ok()?;
    let has_any = |key: &str| package[key].as_object().is_some_and(|list| !list.is_empty());
    // Without a lock file, none is written: it would count as work of an attempt.
    ["dependencies", "devDependencies"]
        .into_iter()
        .any(has_any)
        .then_some("npm install --no-package-lock")
}

/// Returns the names at the top of the project that a copy needs and that git usually ignores.
pub fn wanted_files(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| WANTED.contains(&name.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], package: &str) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let texts = [("package.json".to_owned(), package.to_owned())].into();
        installs(&names, &texts, |program| program != "go")
    }

    #[test]
    fn each_kind_of_project_gets_its_command() {
        for (names, package, command) in [
            (&["package.json", "package-lock.json"][..], "{}", &["npm ci"][..]),
            (&["pnpm-lock.yaml"], "{}", &["pnpm install --frozen-lockfile"]),
            (&["yarn.lock"], "{}", &["yarn install --frozen-lockfile"]),
            (&["yarn.lock", ".yarnrc.yml"], "{}", &["yarn install --immutable"]),
            (&["package.json"], "{}", &[]),
            (
                &["package.json"],
                r#"{"devDependencies": {"a": "1"}}"#,
                &["npm install --no-package-lock"],
            ),
            (&["uv.lock", "Cargo.lock"], "", &["uv sync", "cargo fetch"]),
            (&["go.mod"], "", &[]),
            (&["README.md"], "", &[]),
        ] {
            assert_eq!(of(names, package), command, "{names:?}");
        }
    }
}
