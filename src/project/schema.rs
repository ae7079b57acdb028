//! The JSON Schemas of the files that people write, for their editors.
//!
//! That of the settings is made from the settings. That of the graph is written by hand: the reader
//! of the graph takes more spellings than a type could say. A test holds it against the reader.

use crate::{adapters::terminal, project::config::Config};

/// Where that of the graph is put for editors, relative to the repository.
pub const GRAPH_PATH: &str = ".ralph/schemas/task-graph.json";
/// Where that of the settings is.
pub const CONFIG_PATH: &str = ".ralph/schemas/config.json";

/// Of `task-graph.yaml`.
pub fn graph() -> &'static str {
    include_str!("schema/task-graph.json")
}

/// Of `.ralph/config.yaml`.
pub fn config() -> String {
    terminal::json(&Config::schema())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::core::graph::load;

    #[test]
    fn the_schema_of_the_graph_knows_the_fields_that_the_reader_knows() {
        let schema: Value = serde_json::from_str(graph()).unwrap();
        let fields = schema["$defs"]["fields"]["properties"].as_object().unwrap();
        let mut described: Vec<&str> = fields.keys().map(String::as_str).collect();
        described.push("id");
        described.sort_unstable();
        let mut known = load::FIELDS.to_vec();
        known.sort_unstable();
        assert_eq!(described, known);
    }
}
