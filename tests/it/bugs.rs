//! The known bugs of `tests/bugs`: each still fits the source, and names a test that is there.
//! `just bugs` puts them in, one at a time, and sees them caught.

use std::{fs, path::Path, process::Command};

use crate::support::is_a_test;

#[test]
fn every_known_bug_fits_the_source_and_names_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in fs::read_dir(root.join("tests/bugs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "patch") {
            continue;
        }
        count += 1;
        let name = path.file_name().unwrap().display();
        let mut git = Command::new("git");
        let output = git.args(["apply", "--check"]).arg(&path).current_dir(root).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} does not fit any more; make it anew: {why}");
        let text = fs::read_to_string(&path).unwrap();
        let header = text.lines().find_map(|line| line.strip_prefix("# caught-by: "));
        let (_, by) = header.and_then(|header| header.split_once(' ')).expect("two words");
        let by = match by.split_once("::tests::") {
            Some((module, name)) => format!("src/{}::{name}", module.replace("::", "/")),
            None => by.to_owned(),
        };
        assert!(is_a_test(&by), "{name} is caught by {by}, which is not there");
    }
    assert!(count >= 10, "{count} bugs");
}
