//! Every crate that is built into `ralph` has a license that allows redistribution. Advisories need
//! a downloaded database, so they are not checked here.

use std::process::Command;

use serde_json::Value;

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // The license of a list of root certificates.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an alternative of an SPDX expression has only allowed licenses.
fn allowed(expression: &str) -> bool {
    expression.replace('/', " OR ").split(" OR ").any(|alternative| {
        alternative.split(" AND ").all(|part| {
            let licence = part.trim_matches(|c: char| "() ".contains(c));
            let licence = licence.split(" WITH ").next().unwrap_or(licence);
            ALLOWED.contains(&licence)
        })
    })
}

#[test]
fn every_crate_has_a_licence_that_allows_it() {
    // Crates for other systems are not downloaded here.
    let rustc = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "the list is there");
    let odd: Vec<String> = packages
        .iter()
        .filter(|package| !allowed(package["license"].as_str().unwrap_or_default()))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(odd.is_empty(), "{odd:#?}");
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    assert!(allowed("MIT OR GPL-3.0"));
    assert!(allowed("MIT/Apache-2.0"));
    assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!allowed("MIT AND GPL-3.0"));
    assert!(!allowed(""));
}
