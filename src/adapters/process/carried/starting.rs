//! What a worker gets before its agent starts, and the sign that it may have started.

use std::{fs::File, path::PathBuf, thread};

use super::{
    super::{line::LineWriter, sign_of_life},
    CarriedGuard, CarriedMessage, CarrierNews, ConnectionPurpose, PROTOCOL, ProcessSpec,
    TaskFolder, ToWorker, VERSION, WorkerBegin, WorkerFiles, WorkerTask, lock, send_prompt,
    sent_sign,
};

impl CarriedGuard<'_> {
    pub(super) fn begin(&self) {
        let work = self.carrier.transfer.as_ref().map(|transfer| WorkerFiles {
            repository: transfer.repository.clone(),
            slot: transfer.slot.clone(),
            dir: transfer.dir.clone(),
            token: transfer.token.clone(),
        });
        self.connection.line.send(&ToWorker::Begin(WorkerBegin {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            work,
            fetch: self.purpose == ConnectionPurpose::Fetch,
            end: self.brief.exit.is_some(),
            arrived: lock(&self.arrivals).arrived,
        }));
    }

    /// Sends bulk from a thread of its own, while orders are obeyed.
    pub(super) fn send(
        &self,
        what: impl FnOnce(&LineWriter) -> Result<(), String> + Send + 'static,
    ) {
        let (line, outbox, number) =
            (self.connection.line.clone(), self.outbox.clone(), self.number);
        thread::spawn(move || {
            if let Err(why) = what(&line) {
                let _ = outbox.send(CarriedMessage::Heard(number, CarrierNews::Unsendable(why)));
            }
        });
    }

    /// Sends what the agent needs to start.
    pub(super) fn send_task(&self) {
        let files = lock(&self.arrivals).folder.as_mut().map(TaskFolder::news);
        for file in files.unwrap_or_default() {
            self.connection.line.send(&ToWorker::File(file));
        }
        let (spec, idle, redact) = (self.brief.spec.clone(), self.brief.idle, self.brief.redact);
        let (exit, sign) = (self.brief.exit.clone(), self.sign.clone());
        self.send(move |line| {
            send_prompt(line, &spec)?;
            let kept = exit.is_some();
            if let Some(exit) = exit {
                let sign = sent_sign(&exit);
                File::create(sign).map_err(|error| format!("note the start: {error}"))?;
            }
            if let Some(sign) = &sign {
                sign_of_life::make(sign).map_err(|error| format!("note the start: {error}"))?;
            }
            line.send(&ToWorker::Start(Box::new(WorkerTask { spec, idle, redact, kept, sign })));
            Ok(())
        });
    }

    /// Notes that nothing of the agent runs there.
    pub(super) fn remove_sign(&self) {
        sign_of_life::remove(self.sign.as_deref());
    }
}

/// The folder with the reports of the task.
pub(super) fn task_folder(spec: &ProcessSpec) -> Option<PathBuf> {
    let folder = spec.env.iter().find(|(name, _)| name == "RALPH_TASK_DIR");
    folder.map(|(_, dir)| PathBuf::from(dir))
}
