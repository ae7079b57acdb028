//! Files that hold secrets by their name, which `ralph` does not commit by itself.
//!
//! Only names that mean nothing else: a file that is left out although it is work lets its task fail.

/// The names of such files.
const NAMES: &[&str] = &[
    ".env",
    ".git-credentials",
    ".netrc",
    ".pgpass",
    ".pypirc",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

/// The beginning of the names of variants, such as `.env.local`.
const VARIANT: &str = ".env.";

/// The ends of the names of variants that are made to be committed.
const SAMPLES: &[&str] = &["default", "defaults", "dist", "example", "sample", "template", "test"];

/// Whether a file holds secrets by its name.
pub fn is_secret_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_variant = name
        .strip_prefix(VARIANT)
        .is_some_and(|kind| !SAMPLES.contains(&kind.rsplit('.').next().unwrap_or(kind)));
    is_variant || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_secrets_are_found() {
        for path in [".env", "web/.env", ".env.local", ".env.production", "keys/id_rsa", ".netrc"] {
            assert!(is_secret_file(path), "{path}");
        }
        for path in [
            ".env.example",
            ".env.local.example",
            ".env.test",
            ".envrc",
            "env",
            "src/.env/main.rs",
            "id_rsa.pub",
            "environment.yml",
        ] {
            assert!(!is_secret_file(path), "{path}");
        }
    }
}
