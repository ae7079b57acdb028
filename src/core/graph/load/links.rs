//! Reads dependencies in both notations, resolves their ids and reports cycles.

use std::collections::HashMap;

use super::{Edge, place::FaultPlace, reader::TaskReader};
use crate::{
    diagnostic::{Diagnostic, nearest},
    graph::task::{Task, TaskId},
};

/// A dependency and its location.
pub(super) struct DependencyLink {
    pub(super) edge: (usize, usize),
    pub(super) place: FaultPlace,
}

impl TaskReader<'_> {
    /// Returns the dependencies in both notations, with their locations.
    pub(super) fn links(
        &mut self,
        numbers: &HashMap<TaskId, usize>,
        depends_on: &[Vec<String>],
        edges: &[Edge],
    ) -> Vec<DependencyLink> {
        let mut links = Vec::new();
        for (number, names) in depends_on.iter().enumerate() {
            for (item, name) in names.iter().enumerate() {
                let place = FaultPlace::Item(number, "depends_on", item);
                if let Some(from) = self.known(numbers, name, place) {
                    links.push(DependencyLink { edge: (from, number), place });
                }
            }
        }
        for (index, edge) in edges.iter().enumerate() {
            let [from, to] = [("from", &edge.from), ("to", &edge.to)].map(|(end, value)| {
                let place = FaultPlace::Edge(index, end);
                if value.is_null() {
                    self.error(format!("the edge has no `{end}`"), place, "");
                }
                let name = self.text(value, place, end)?;
                self.known(numbers, &name, place)
            });
            if let (Some(from), Some(to)) = (from, to) {
                links.push(DependencyLink {
                    edge: (from, to),
                    place: FaultPlace::Edge(index, "from"),
                });
            }
        }
        links.retain(|link| {
            let itself = link.edge.0 == link.edge.1;
            if itself {
                let at = self.places.range(link.place);
                let fault = Diagnostic::error("a task depends on itself", at);
                self.faults.push(fault.help("remove it: a task cannot wait for its own end"));
            }
            !itself
        });
        links
    }

    /// Returns the number of the task that a dependency names.
    fn known(
        &mut self,
        numbers: &HashMap<TaskId, usize>,
        name: &str,
        place: FaultPlace,
    ) -> Option<usize> {
        // A suggestion compares all ids, so only the first errors get one.
        const SUGGESTIONS: usize = 20;
        if let Some(number) = numbers.get(name) {
            return Some(*number);
        }
        let near = (self.faults.len() < SUGGESTIONS)
            .then(|| {
                // In the order of the file, so that the same file always gets the same suggestion.
                let mut ids: Vec<(&TaskId, &usize)> = numbers.iter().collect();
                ids.sort_unstable_by_key(|(_, number)| **number);
                nearest(name, ids.into_iter().map(|(id, _)| id.as_str()))
            })
            .flatten();
        let mut fault = Diagnostic::error(
            format!("unknown dependency `{}`", name.escape_debug()),
            self.places.range(place),
        )
        .label("no task has this id");
        if let FaultPlace::Item(number, _, _) = place {
            fault =
                fault.related(self.places.range(FaultPlace::Field(number, "id")), "in this task");
        }
        self.push(fault.did_you_mean(near));
        None
    }

    pub(super) fn cycles(
        &mut self,
        tasks: &[Task],
        cycles: &[Vec<usize>],
        links: &[DependencyLink],
    ) {
        /// The most tasks of a cycle that are shown.
        const SHOWN: usize = 8;
        for cycle in cycles {
            let (first, last) = (cycle[0], cycle[cycle.len() - 1]);
            let name = |number: &usize| format!("`{}`", tasks[*number].id);
            let mut names: Vec<String> = cycle.iter().take(SHOWN).map(name).collect();
            if cycle.len() > SHOWN {
                names.push(format!("… {} more …", cycle.len() - SHOWN));
            }
            names.push(name(&first));
            let place = links
                .iter()
                .find(|link| link.edge == (last, first))
                .map_or(FaultPlace::Field(first, "id"), |link| link.place);
            let fault = Diagnostic::error(
                format!("the tasks form a cycle: {}", names.join(" -> ")),
                self.places.range(place),
            );
            self.push(
                fault
                    .label(format!("this makes {} wait for itself", name(&first)))
                    .help("remove one of these dependencies"),
            );
        }
    }
}
