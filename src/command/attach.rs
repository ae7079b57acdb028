//! `ralph attach`: what the agent says that runs.

use anyhow::Result;

use super::{
    Here,
    listen::{self, Voice, Wanted},
    logs::{About, without_reader},
    status::{Standing, look},
};
use crate::{
    cli::Attach,
    exit::{Exit, Failure},
};

/// Shows it until the run is over or somebody leaves. The run does not notice.
///
/// # Errors
/// Nothing runs, or not that task; as the disk gives them.
pub fn run(here: &Here, options: &Attach) -> Result<Exit> {
    let workspace = here.workspace()?;
    let about = About::new(options.id.as_deref(), None)?;
    let (chronicle, live) = look(&workspace)?;
    let history = chronicle.history();
    if !live {
        let how = match Standing::of(history, live) {
            Standing::None => "`ralph run` starts something".to_owned(),
            standing => format!(
                "the newest run is {}; `ralph logs --output` shows what its agent said",
                standing.word()
            ),
        };
        return Err(Failure::new(Exit::Error, format!("nothing runs here: {how}")).into());
    }
    let open = history.open();
    if let Some(id) = &about.task
        && !open.iter().any(|(running, ..)| *running == id)
    {
        let what = match open.first() {
            Some((running, ..)) => format!("`{running}` does; `ralph attach` shows it"),
            None => "no attempt runs just now".to_owned(),
        };
        let message = format!("`{id}` is not worked on: {what}");
        return Err(Failure::new(Exit::Error, message).into());
    }
    without_reader(listen::listen(
        &workspace,
        Wanted {
            about,
            voice: Voice::Readable,
            lines: Some(options.lines),
            follow: true,
            attached: true,
        },
    ))
}
