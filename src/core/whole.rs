//! The checks on the tip of a branch after work has landed: every command that verified any of it,
//! and every command of the project.

use crate::{commit_id::CommitId, graph::task::TaskId, history::LandedWork};

/// A command to run on the tip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeCheck {
    /// The command, for a shell.
    pub command: String,
    /// Whether it belongs to the project, and to no task.
    pub is_of_project: bool,
    /// The places in the landed work of the tasks that it verified, in order.
    pub landed: Vec<usize>,
}

/// Verify commands that passed on a commit before it landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenTip {
    /// The commit.
    pub commit: CommitId,
    /// The task whose variables the commands got.
    pub task_id: TaskId,
    /// The commands.
    pub commands: Vec<String>,
}

/// Whether the variables of an attempt may decide what a command checks, so that each task has its own.
fn is_per_task(command: &str) -> bool {
    command.contains("RALPH_") || command.contains("TASK_FOLDER")
}

impl WholeCheck {
    /// Returns the commands of the project and of the landed tasks, each once. `verify_of` has the
    /// commands of a task, among them those of the project unless it replaces them.
    pub fn all(
        landed: &[LandedWork],
        project: &[String],
        verify_of: impl Fn(&TaskId) -> Vec<String>,
    ) -> Vec<WholeCheck> {
        let mut all: Vec<WholeCheck> = Vec::new();
        for command in project.iter().filter(|command| !is_per_task(command)) {
            let command = command.clone();
            all.push(WholeCheck { command, is_of_project: true, landed: Vec::new() });
        }
        for (at, work) in landed.iter().enumerate() {
            for command in verify_of(&work.task_id) {
                let is_same = |check: &&mut WholeCheck| {
                    let same_task =
                        || check.landed.iter().all(|at| landed[*at].task_id == work.task_id);
                    check.command == command && (!is_per_task(&command) || same_task())
                };
                match all.iter_mut().find(is_same) {
                    Some(check) => check.landed.push(at),
                    None => {
                        all.push(WholeCheck { command, is_of_project: false, landed: vec![at] });
                    }
                }
            }
        }
        all
    }

    /// Whether it passed on this tip when its last work landed.
    pub fn is_proven(&self, landed: &[LandedWork], tip: &CommitId, proven: &ProvenTip) -> bool {
        let same_task = || self.landed.iter().all(|at| landed[*at].task_id == proven.task_id);
        proven.commit == *tip
            && proven.commands.contains(&self.command)
            && (!is_per_task(&self.command) || same_task())
    }

    /// Returns the last commit where it passed, if known, and the suspects after it, up to the tip.
    pub fn suspects(
        &self,
        landed: &[LandedWork],
        tip: &CommitId,
    ) -> (Option<CommitId>, Vec<CommitId>) {
        let good = self.landed.last();
        let base = match good {
            Some(at) => Some(landed[*at].commit.clone()),
            None => landed.first().and_then(|work| work.onto.clone()),
        };
        let after = landed.iter().skip(good.map_or(0, |at| at + 1));
        let mut suspects: Vec<CommitId> = after.map(|work| work.commit.clone()).collect();
        // The tip may have commits that no attempt made.
        if suspects.last() != Some(tip) && base.as_ref() != Some(tip) {
            suspects.push(tip.clone());
        }
        suspects.dedup();
        (base, suspects)
    }
}

/// Returns the place of the first of `count` commits in a row on which a check fails, if it fails on the
/// last and `is_red` says whether it does on another. None if that cannot be said.
///
/// # Errors
/// The errors of `is_red`.
pub fn first_red<E>(
    count: usize,
    mut is_red: impl FnMut(usize) -> Result<Option<bool>, E>,
) -> Result<Option<usize>, E> {
    let (mut green, mut red) = (0, count.saturating_sub(1));
    while green < red {
        let middle = green.midpoint(red);
        match is_red(middle)? {
            Some(true) => red = middle,
            Some(false) => green = middle + 1,
            None => return Ok(None),
        }
    }
    Ok((count > 0).then_some(red))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landed(ids: &[&str]) -> Vec<LandedWork> {
        let work = |(at, id): (usize, &&str)| LandedWork {
            task_id: TaskId::new(id).unwrap(),
            attempt: 1,
            log: String::new(),
            commits: Vec::new(),
            commit: format!("c{at}").as_str().into(),
            onto: Some("c".into()),
        };
        ids.iter().enumerate().map(work).collect()
    }

    fn verify_of(id: &TaskId) -> Vec<String> {
        match id.as_str() {
            "only" => vec!["own".to_owned()],
            id => ["all", "test -e $RALPH_TASK_ID", &format!("test -e {id}")]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    #[test]
    fn every_command_is_due_once_unless_the_last_landing_has_proved_it() {
        let work = landed(&["a", "b", "only", "a"]);
        let project = ["all", "test -e $RALPH_TASK_ID"].map(str::to_owned);
        let all = WholeCheck::all(&work, &project, verify_of);
        let shown: Vec<(&str, bool, &[usize])> =
            all.iter().map(|it| (&*it.command, it.is_of_project, &*it.landed)).collect();
        let expected: [(&str, bool, &[usize]); 6] = [
            ("all", true, &[0, 1, 3]),
            ("test -e $RALPH_TASK_ID", false, &[0, 3]),
            ("test -e a", false, &[0, 3]),
            ("test -e $RALPH_TASK_ID", false, &[1]),
            ("test -e b", false, &[1]),
            ("own", false, &[2]),
        ];
        assert_eq!(shown, expected);
        let (tip, task_id) = (CommitId::from("c3"), work[3].task_id.clone());
        let commands = verify_of(&task_id);
        let proven = ProvenTip { commit: tip.clone(), task_id, commands };
        let due = |tip: &CommitId| -> Vec<usize> {
            (0..all.len()).filter(|at| !all[*at].is_proven(&work, tip, &proven)).collect()
        };
        assert_eq!(due(&tip), [3, 4, 5]);
        assert_eq!(due(&"other".into()).len(), 6);
        let ids = |ids: &[&str]| ids.iter().map(|id| CommitId::from(*id)).collect::<Vec<_>>();
        assert_eq!(all[4].suspects(&work, &tip), (Some("c1".into()), ids(&["c2", "c3"])));
        assert_eq!(all[1].suspects(&work, &tip), (Some("c3".into()), ids(&[])));
        let foreign = WholeCheck { landed: Vec::new(), ..all[0].clone() };
        let (base, suspects) = foreign.suspects(&work, &"tip".into());
        assert_eq!((base, suspects), (Some("c".into()), ids(&["c0", "c1", "c2", "c3", "tip"])));
    }

    #[test]
    fn the_first_red_commit_is_found_with_few_runs() {
        for count in 1..20_usize {
            for broken in 0..count {
                let mut runs = 0;
                let found = first_red(count, |at| {
                    runs += 1;
                    Ok::<_, ()>(Some(at >= broken))
                });
                assert_eq!(found, Ok(Some(broken)), "{count}");
                assert!(runs <= 5, "{runs} of {count}");
            }
        }
        assert_eq!(first_red(9, |_| Ok::<_, ()>(None)), Ok(None));
        assert_eq!(first_red(0, |_| Ok::<_, ()>(None)), Ok(None));
    }
}
