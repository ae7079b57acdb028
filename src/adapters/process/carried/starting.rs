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
            is_sha256: transfer.is_sha256,
        });
        self.connection.line.send(&ToWorker::Begin(WorkerBegin {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            work,
            fetch: self.purpose == ConnectionPurpose::Fetch,
            end: self.brief.exit.is_some(),
            arrived: lock(&self.arrivals).arrived,
        }));
        if self.carrier.transfer.is_none() {
            // A worker that has nothing else to do says that it is ready once it has this, and each side
            // speaks in turn: TCP holds back what is small and follows something unacknowledged, and the
            // other side waits 40 ms with an acknowledgement unless it answers. For the same reason the
            // worker answers a part of a message, such as the 1,024 bytes that `srun` sends at once.
            let task = self.task();
            self.send(move |line| send_task(line, task));
        }
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
                let _ = outbox.send(CarriedMessage::Heard(number, CarrierNews::Sent(Err(why))));
            }
        });
    }

    /// Sends what is still lacking, and starts the agent.
    pub(super) fn start_agent(&self) {
        let files = lock(&self.arrivals).folder.as_mut().map(TaskFolder::news);
        for file in files.unwrap_or_default() {
            self.connection.line.send(&ToWorker::File(file));
        }
        let task = self.carrier.transfer.is_some().then(|| self.task());
        let (exit, sign) = (self.brief.exit.clone(), self.sign.clone());
        self.send(move |line| {
            if let Some(task) = task {
                send_task(line, task)?;
            }
            if let Some(exit) = exit {
                let sign = sent_sign(&exit);
                File::create(sign).map_err(|error| format!("note the start: {error}"))?;
            }
            if let Some(sign) = &sign {
                sign_of_life::make(sign).map_err(|error| format!("note the start: {error}"))?;
            }
            line.send(&ToWorker::Start {});
            Ok(())
        });
    }

    fn task(&self) -> WorkerTask {
        WorkerTask {
            spec: self.brief.spec.clone(),
            idle: self.brief.idle,
            redact: self.brief.redact,
            kept: self.brief.exit.is_some(),
            sign: self.sign.clone(),
        }
    }

    /// Notes that nothing of the agent runs there.
    pub(super) fn remove_sign(&self) {
        sign_of_life::remove(self.sign.as_deref());
    }
}

/// Sends the prompt of a process, and the process.
fn send_task(line: &LineWriter, task: WorkerTask) -> Result<(), String> {
    send_prompt(line, &task.spec)?;
    line.send(&ToWorker::Task(Box::new(task)));
    Ok(())
}

/// The folder with the reports of the task.
pub(super) fn task_folder(spec: &ProcessSpec) -> Option<PathBuf> {
    let folder = spec.env.iter().find(|(name, _)| name == "RALPH_TASK_DIR");
    folder.map(|(_, dir)| PathBuf::from(dir))
}
