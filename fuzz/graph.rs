//! A graph file of any text: it is read or refused, and an edit of a valid one leaves a valid one with
//! that value, or is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::graph::{load, task::Status, task_edit};

fuzz_target!(|text: &str| {
    let Ok((_, loaded)) = load::read(text) else { return };
    for task in loaded.graph.tasks().iter().take(3) {
        let fields = vec![("status".to_owned(), Some("complete".into()))];
        let Ok(edited) = task_edit::set_fields_of(text, &[(task.id.clone(), fields)]) else {
            continue;
        };
        let (_, again) = load::read(&edited).expect("an edited graph is valid");
        assert_eq!(again.graph.tasks().len(), loaded.graph.tasks().len());
        assert_eq!(again.graph.status_of(&task.id), Some(Status::Complete));
    }
});
