//! What an attempt in a sandbox leaves behind for the `git` of `ralph`, which works outside: each a
//! repository, and an agent that waits for git to start its program.

/// A way out.
pub struct Escape {
    pub name: &'static str,
    /// Prepares the repository, as its owner did.
    pub before: &'static str,
    /// The agent; `$evil` is a program that leaves a mark outside, and `$name` its name.
    pub agent: &'static str,
}

const fn escape(name: &'static str, before: &'static str, agent: &'static str) -> Escape {
    Escape { name, before, agent }
}

/// Makes a nested repository in which a setting starts the program, and stages it as a link.
macro_rules! nested {
    ($settings:literal) => {
        concat!(
            "git init -q sub; cd sub; echo '* filter=x diff=x' > .gitattributes; echo a > a; git add .
             git commit -qm s; ",
            $settings,
            "; cd ..; git add sub; git commit -qm w; echo b > sub/a; touch sub/new"
        )
    };
}

/// A hook in the tree that runs when `ralph` commits what the agent has left.
macro_rules! hook {
    ($name:literal) => {
        concat!("cp \"$evil\" .husky/", $name, "; echo x > left")
    };
}

const HUSKY: &str =
    "mkdir .husky; git config core.hooksPath .husky; printf '#!/bin/sh\\n' > .husky/x";
const SIGNS: &str =
    "git config commit.gpgsign true; git config gpg.program ./sign; cp /bin/false sign";
/// A submodule whose clone in the slot a rule of the sandbox for `.git/modules/*` does not meet.
const MODULE: &str = "
    git init -q ../lib; (cd ../lib; echo '* filter=x' > .gitattributes; echo a > a; git add .; git commit -qm l)
    git -c protocol.file.allow=always submodule --quiet add --name deep/lib ../lib lib";

/// All ways out that are known.
pub const ESCAPES: &[Escape] = &[
    escape("clean filter of a nested repository", "", nested!("git config filter.x.clean \"$evil\"")),
    escape("long-running filter of a nested repository", "", nested!("git config filter.x.process \"$evil\"")),
    escape("monitor of a nested repository", "", nested!("git config core.fsmonitor \"$evil\"")),
    escape(
        "settings that a nested repository includes",
        "",
        nested!("printf '[filter \"x\"]\\nclean = %s\\n' \"$evil\" > .git/more; git config include.path more"),
    ),
    escape(
        "settings of a worktree of a nested repository",
        "",
        nested!("git config extensions.worktreeConfig true; git config --worktree filter.x.clean \"$evil\""),
    ),
    escape(
        "hooks of a nested repository",
        "",
        nested!("for it in post-checkout post-index-change reference-transaction pre-commit; do cp \"$evil\" .git/hooks/$it; done"),
    ),
    escape("filter of a clone of a submodule", MODULE, "
        git -c protocol.file.allow=always submodule --quiet update --init
        git config -f .git/modules/deep/lib/config filter.x.clean \"$evil\"
        git config -f .git/modules/deep/lib/config filter.x.smudge \"$evil\"; echo b > lib/a; touch done"),
    escape("hooks of a clone of a submodule", MODULE, "
        for it in post-checkout post-index-change reference-transaction; do cp \"$evil\" .git/modules/deep/lib/hooks/$it; done
        (cd lib; git commit -qm more --allow-empty); git add lib; touch done"),
    escape("repository in the place of a submodule", MODULE, "
        rm -rf lib; git init -q lib; cd lib; echo '* filter=x' > .gitattributes; echo a > a; git add .; git commit -qm l
        git config filter.x.clean \"$evil\"; git config filter.x.smudge \"$evil\"; echo b > a; cd ..; git add lib; touch done"),
    escape("order of a submodule", MODULE, "
        git config -f .gitmodules submodule.deep/lib.update \"!$evil\"; git add .gitmodules; touch done"),
    escape("pre-commit hook in the tree", HUSKY, hook!("pre-commit")),
    escape("commit-msg hook in the tree", HUSKY, hook!("commit-msg")),
    escape("post-commit hook in the tree", HUSKY, hook!("post-commit")),
    escape("prepare-commit-msg hook in the tree", HUSKY, hook!("prepare-commit-msg")),
    escape("reference-transaction hook in the tree", HUSKY, hook!("reference-transaction")),
    escape("post-checkout hook in the tree", HUSKY, hook!("post-checkout")),
    escape("post-index-change hook in the tree", HUSKY, hook!("post-index-change")),
    escape("post-merge hook in the tree", HUSKY, hook!("post-merge")),
    escape(
        "hook that calls a script of the tree",
        "printf '#!/bin/sh\\nsh scripts/check\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
         mkdir scripts; touch scripts/check",
        "cp \"$evil\" scripts/check; echo x > left",
    ),
    escape(
        "filter whose program is in the tree",
        "git config filter.x.clean ./tool; git config filter.x.smudge ./tool; echo '*.dat filter=x' > .gitattributes
         printf '#!/bin/sh\\ncat\\n' > tool; chmod +x tool; echo a > a.dat",
        "cp \"$evil\" tool; echo b > a.dat; echo b > b.dat",
    ),
    escape(
        "filter whose interpreter reads the tree",
        "git config filter.x.clean 'sh tools/clean %f'; echo '* filter=x' > .gitattributes
         mkdir tools; echo cat > tools/clean",
        "cp \"$evil\" tools/clean; echo b > a.dat",
    ),
    escape(
        "name of a file for a filter",
        "git config filter.x.clean 'cat # %f'; echo '*.dat filter=x' > .gitattributes",
        "echo a > \"\\$(sh evil)'; sh evil; '.dat\"",
    ),
    escape(
        "program of a filter on a relative PATH",
        "git config filter.lfs.clean 'git-lfs clean -- %f'; echo '*.dat filter=lfs' > .gitattributes",
        "cp \"$evil\" git-lfs; echo b > a.dat",
    ),
    escape(
        "merge driver in the tree",
        "git config merge.x.driver './tool %A %B'; echo 'both merge=x' > .gitattributes; echo 1 > both
         printf '#!/bin/sh\\n' > tool; chmod +x tool",
        "cp \"$evil\" tool; echo $RALPH_TASK_ID > both; touch $RALPH_TASK_ID",
    ),
    escape(
        "text converter in the tree",
        "git config diff.x.textconv ./tool; git config diff.x.command ./tool; echo '* diff=x' > .gitattributes",
        "cp \"$evil\" tool; echo x > a; git add .; git commit -qm w; echo y > a",
    ),
    escape("external diff in the tree", "git config diff.external ./tool", "cp \"$evil\" tool; echo x > a"),
    escape("signing program in the tree", SIGNS, "cp \"$evil\" sign; echo x > left"),
    escape(
        "settings of the tree that the repository includes",
        "git config include.path ../.gitconfig; touch .gitconfig",
        "git config -f .gitconfig filter.x.clean \"$evil\"; git config -f .gitconfig filter.x.smudge \"$evil\"
         git config -f .gitconfig core.fsmonitor \"$evil\"; git config -f .gitconfig core.hooksPath .
         cp \"$evil\" post-checkout; echo '* filter=x' > .gitattributes; echo x > a",
    ),
    escape(
        "settings of the slot",
        "",
        "set +e; git config core.fsmonitor \"$evil\"; git config filter.x.clean \"$evil\"; git config alias.status \"!$evil\"
         git config core.hooksPath .; cp \"$evil\" post-checkout; echo '* filter=x' > .gitattributes; echo a > a; true",
    ),
    escape(
        "settings of the slot in another file",
        "",
        "set +e; mkdir -p .git/other/objects .git/other/refs; cp .git/config .git/other/config
         git config -f .git/other/config filter.x.clean \"$evil\"; git config -f .git/config.worktree filter.x.clean \"$evil\"
         echo other > .git/commondir; echo '* filter=x' > .gitattributes; echo a > a; true",
    ),
    escape(
        "settings of the slot while an attempt works",
        "echo 'idle: 1s' >> .ralph/config.yaml",
        "mkdir -p .git/other/objects .git/other/refs; cp .git/config .git/other/config
         git config -f .git/other/config filter.x.clean \"$evil\"; git config filter.x.clean \"$evil\" || true
         echo '* filter=x' > .gitattributes; echo a > a; echo other > .git/commondir; sleep 4; rm -f .git/commondir",
    ),
    escape(
        "settings of a worktree in the slot",
        "",
        "git commit -q --allow-empty -m w; git worktree add -q -b other tree; cp -r .git other.git
         echo '* filter=x' > tree/.gitattributes; git -C tree add .; git -C tree commit -qm t
         touch tree/.gitattributes; git config -f other.git/config filter.x.clean \"$evil\"
         mv other.git .git/other; printf '%s\\n' \"$PWD/.git/other\" > .git/worktrees/tree/commondir",
    ),
];
