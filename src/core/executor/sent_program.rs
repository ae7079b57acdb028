//! This program on its way to an ssh host: the script that receives it there, and its answers.

use super::carrier_command::{quoted, shell_path};

/// The folder on a host if the settings name none.
const DIR: &str = "~/.cache/ralph";

/// A build of this program.
#[derive(Clone, Debug)]
pub struct ProgramBuild {
    /// Its version.
    pub version: String,
    /// The system and processor that it was built for, as `uname -sm` prints them.
    pub system: String,
    /// What tells it from other builds of this version.
    pub hash: String,
    /// Its size in bytes.
    pub size: u64,
}

/// What the host answers first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    /// It has the program, at this path.
    Has(String),
    /// It waits for the program, and will have it at this path.
    Wants(String),
}

impl ProgramBuild {
    /// Returns the script of a POSIX shell that receives the program on its standard input and
    /// keeps it below `dir`. A program that was not received as a whole, or does not run there, is
    /// removed.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn script(&self, dir: Option<&str>) -> Result<String, String> {
        let dir = shell_path(dir.unwrap_or(DIR))?;
        let ProgramBuild { version, hash, size, .. } = self;
        let name = quoted(&format!("ralph-{version}-{hash}"));
        Ok(format!(
            "trap \"\" HUP PIPE; d={dir}/bin; f=$d/{name}; echo ralph-host $(uname -sm); \
             whole() {{ [ -f \"$1\" ] && [ $(wc -c < \"$1\") -eq {size} ]; }}; \
             if whole \"$f\" && \"$f\" --version >/dev/null 2>&1; \
             then echo \"has $f\"; exit 0; fi; \
             umask 077; mkdir -p \"$d\" || exit 1; t=$f.$$; trap 'rm -f \"$t\"' EXIT; \
             : > \"$t\" || exit 1; echo \"wants $f\"; cat > \"$t\" || exit 1; \
             if whole \"$t\"; then :; else echo it arrived incomplete >&2; exit 1; fi; \
             chmod 700 \"$t\" && \"$t\" --version >/dev/null && mv \"$t\" \"$f\" && echo received"
        ))
    }

    /// Reads the first lines of the host; none if more must be read. A greeting of the host before
    /// them is skipped.
    ///
    /// # Errors
    /// The host is of another kind.
    pub fn answer(&self, lines: &str) -> Result<Option<HostAnswer>, String> {
        let mut ours = lines.lines().skip_while(|line| !line.starts_with("ralph-host "));
        let (Some(host), Some(answer)) = (ours.next(), ours.next()) else { return Ok(None) };
        let system = host.trim_start_matches("ralph-host ").trim();
        if system != self.system {
            return Err(format!(
                "it is {system}, and this program is for {}; install ralph {} there and set \
                 `ralph` to its path",
                self.system, self.version
            ));
        }
        Ok(match answer.split_once(' ') {
            Some(("has", path)) => Some(HostAnswer::Has(path.to_owned())),
            Some(("wants", path)) => Some(HostAnswer::Wants(path.to_owned())),
            _ => return Err(format!("its answer cannot be read: {}", answer.escape_debug())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build() -> ProgramBuild {
        let text = str::to_owned;
        let (version, system, hash) = (text("0.1.0"), text("Linux x86_64"), text("abc"));
        ProgramBuild { version, system, hash, size: 7 }
    }

    #[test]
    fn a_greeting_of_the_host_is_skipped() {
        let told = |text: &str| build().answer(text);
        assert_eq!(told("Welcome\nto it\n"), Ok(None));
        assert_eq!(told("Welcome\nralph-host Linux x86_64\n"), Ok(None));
        let has = HostAnswer::Has("/home/t/.cache/ralph/bin/x".to_owned());
        let text = "Welcome\nralph-host Linux x86_64\nhas /home/t/.cache/ralph/bin/x\n";
        assert_eq!(told(text), Ok(Some(has)));
    }

    #[test]
    fn a_host_of_another_kind_is_named() {
        let error = build().answer("ralph-host Linux aarch64\nwants /x\n").unwrap_err();
        assert!(error.contains("Linux aarch64") && error.contains("Linux x86_64"), "{error}");
    }
}
